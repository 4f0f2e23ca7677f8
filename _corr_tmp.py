import sys, tempfile, logging, random
sys.path.insert(0, "/work/topology")
from pathlib import Path
from tests.corruption.driving import Driver
from tests.corruption.sampling import every_file, NEAR
from tests.corruption.kinds import Kind
from tests.corruption.graph import Variant
from tests.corruption.world import build_world
logging.disable(logging.WARNING)
if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        world = build_world(Path(folder))
        print({k: sum(v == Kind.TOPOLOGY for v in kinds.values()) for k, kinds in world.kinds.items()}, flush=True)
        cases = [c.only(list(NEAR[Kind.TOPOLOGY])) for c in every_file(world, 17) if c.kind == Kind.TOPOLOGY and c.variant is Variant.SETTLED]
        print(len(cases), sum(len(c.verbs) for c in cases), flush=True)
        random.Random(1).shuffle(cases)
        report = Driver(world).run(cases[:60])
        print(report.table()); print(report.causes()); print(report.forbidden, flush=True)
