"""Parameters of the reads, chosen by a seed among what the network has, so that almost all of them find something."""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, TypeAlias, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from benchmarks.snb.data import BEGIN, COUNTRIES, END, Network

Parameters: TypeAlias = dict[str, Any]
_Numbers: TypeAlias = NDArray[Any]
_Found = TypeVar("_Found")

EACH = 20
"""How many parameters each query has."""
NONE_FOUND = [(-1,)]
"""The answer of the read that looks for a path, if there is none."""
_INTERVAL = timedelta(days=60)
_DAY, _MILLISECOND = timedelta(days=1), timedelta(milliseconds=1)
_TRIES = 20
"""How often something near a person is looked for, before another person is, or anything is taken."""


def make_parameters(network: Network, seed: int = 1) -> Mapping[str, list[Parameters]]:
    """The parameters of each query, by its name."""
    chooser = _Chooser(network)
    questions = {}
    for number, (name, choose) in enumerate(_CHOICES.items()):
        chooser.chance = np.random.default_rng([seed, 77, number])
        questions[name] = [choose(chooser) for _ in range(EACH)]
    return questions


class _Chooser:
    chance: np.random.Generator
    """What the next query is chosen by: each has its own, so that one does not change the others."""

    def __init__(self, network: Network) -> None:
        ends = [_numbers(network.edges["Knows"], name) for name in ("from", "to")]
        self.people, degrees = np.unique(np.concatenate(ends), return_counts=True)
        self.friends = _by_begin(np.concatenate(ends), np.concatenate(ends[::-1]))
        self.social = self.people[degrees >= np.quantile(degrees, 0.25)]
        self.names = network.nodes["Person"]
        self.place = dict(zip(_numbers(self.names, "id").tolist(), range(len(self.names)), strict=True))
        self.messages = _numbers(network.nodes["Message"], "id")
        self.replied = np.unique(_numbers(network.edges["ReplyOf"], "to"))
        self.creators = np.unique(_numbers(network.edges["HasCreator"], "to"))
        creator = _numbers(network.edges["HasCreator"], "to")
        posts = np.flatnonzero(np.isin(self.messages, _numbers(network.edges["ContainerOf"], "to")))
        tags = _by_begin(_numbers(network.edges["HasTag"], "from"), _numbers(network.edges["HasTag"], "to"))
        self.tags_of_post = {post: found for post in self.messages[posts].tolist() if (found := tags.get(post))}
        self.posts_of = _by_begin(creator[posts], self.messages[posts])
        self.tag_names = network.nodes["Tag"]["name"].to_pylist()
        self.classes = network.nodes["TagClass"]["name"].to_pylist()
        cities = _numbers(network.edges["LivesIn"], "to")
        countries = _numbers(network.edges["CityIsPartOf"], "to")
        self.home = dict(
            zip(_numbers(network.edges["LivesIn"], "from").tolist(), countries[cities].tolist(), strict=True)
        )
        self.jobs = _by_begin(_numbers(network.edges["WorkAt"], "from"), np.arange(network.edges["WorkAt"].num_rows))
        self.job_years = _numbers(network.edges["WorkAt"], "workFrom")
        self.job_countries = _numbers(network.edges["CompanyIsIn"], "to")[_numbers(network.edges["WorkAt"], "to")]
        self.written_in = _numbers(network.edges["IsLocatedIn"], "to")
        self.made = network.nodes["Message"]["creationDate"].cast(pa.int64()).to_numpy()
        abroad = np.flatnonzero(self.written_in != np.array([self.home[each] for each in creator.tolist()]))
        self.abroad = _by_begin(creator[abroad], abroad)

    def one(self, numbers: Any) -> int:
        return int(numbers[self.chance.integers(len(numbers))])

    def person(self) -> int:
        return self.one(self.social)

    def friend(self, person: int) -> int:
        return self.one(self.friends[person])

    def instant(self, first: float, last: float) -> datetime:
        """The beginning of a day in a part of the time of the network."""
        day = int(BEGIN + (END - BEGIN) * self.chance.uniform(first, last)) // 86_400_000
        return datetime.fromtimestamp(day * 86_400, UTC)

    def first_of_tag(self, person: int) -> float | None:
        """When a friend was the first of the friends of a person who wrote a post with some tag."""
        found = [
            (tag, post)
            for friend in self.friends[person]
            for post in self.posts_of.get(friend, ())
            for tag in self.tags_of_post.get(post, ())
        ]
        if not found:
            return None
        chosen, _ = found[int(self.chance.integers(len(found)))]
        places = np.searchsorted(self.messages, [post for tag, post in found if tag == chosen])
        return float(self.made[places].min())

    def job_near(self, person: int) -> int | None:
        """Where a friend of a friend works, if one does."""
        for _ in range(_TRIES):
            other = self.friend(self.friend(person))
            if other != person and other in self.jobs:
                return self.one(self.jobs[other])
        return None

    def countries_near(self, person: int) -> tuple[int, int, float] | None:
        """Two countries where a friend, or a friend of one, wrote without living there, and when the first time."""
        for _ in range(_TRIES):
            other = self.friend(self.friend(person))
            if other == person or other not in self.abroad:
                continue
            at = self.abroad[other]
            first = self.one(at)
            later = [
                each
                for each in at
                if self.written_in[each] != self.written_in[first]
                and 0 <= self.made[each] - self.made[first] < (3 * _INTERVAL - _DAY) / _MILLISECOND
            ]
            if later:
                return int(self.written_in[first]), int(self.written_in[self.one(later)]), float(self.made[first])
        return None

    def tag_near(self, person: int) -> str:
        """A tag of a post of a friend of a friend, if there is one."""
        for _ in range(_TRIES):
            posts = [
                post for post in self.posts_of.get(self.friend(self.friend(person)), ()) if post in self.tags_of_post
            ]
            if posts:
                return str(self.tag_names[self.one(self.tags_of_post[self.one(posts)])])
        return str(self.tag_names[0])


def _numbers(table: pa.Table, name: str) -> _Numbers:
    numbers: _Numbers = table[name].to_numpy()
    return numbers


def _by_begin(begins: _Numbers, ends: _Numbers) -> dict[int, list[int]]:
    order = np.argsort(begins, kind="stable")
    known, firsts = np.unique(begins[order], return_index=True)
    parts = np.split(ends[order], firsts[1:])
    return {int(begin): part.tolist() for begin, part in zip(known, parts, strict=True)}


def _of_person(choose: _Chooser) -> Parameters:
    return {"personId": choose.person()}


def _of_message(choose: _Chooser) -> Parameters:
    return {"messageId": choose.one(choose.messages)}


def _of_replied(choose: _Chooser) -> Parameters:
    return {"messageId": choose.one(choose.replied)}


def _of_name(choose: _Chooser) -> Parameters:
    person = choose.person()
    other = choose.friend(choose.friend(choose.friend(person)))
    return {"personId": person, "firstName": choose.names["firstName"][choose.place[other]].as_py()}


def _until(choose: _Chooser) -> Parameters:
    return {"personId": choose.person(), "maxDate": choose.instant(0.5, 0.95)}


def _near(choose: _Chooser, find: Callable[[int], _Found | None]) -> tuple[int, _Found | None]:
    """A person, if possible one near whom something is found, and what is."""
    for _ in range(_TRIES):
        person = choose.person()
        found = find(person)
        if found is not None:
            break
    return person, found


def _day(milliseconds: float) -> datetime:
    return datetime.fromtimestamp(milliseconds // 86_400_000 * 86_400, UTC)


def _of_countries(choose: _Chooser) -> Parameters:
    person, found = _near(choose, choose.countries_near)
    one, other, first = found or (0, 1, float(BEGIN))
    return {
        "personId": person,
        "countryXName": COUNTRIES[one],
        "countryYName": COUNTRIES[other],
        "startDate": _day(first),
        "endDate": _day(first) + 3 * _INTERVAL,
    }


def _of_interval(choose: _Chooser) -> Parameters:
    person, found = _near(choose, choose.first_of_tag)
    start = _day(found or float(BEGIN))
    return {"personId": person, "startDate": start, "endDate": start + _INTERVAL}


def _since(choose: _Chooser) -> Parameters:
    return {"personId": choose.person(), "minDate": choose.instant(0.5, 0.9)}


def _of_tag(choose: _Chooser) -> Parameters:
    person = choose.person()
    return {"personId": person, "tagName": choose.tag_near(person)}


def _of_month(choose: _Chooser) -> Parameters:
    return {"personId": choose.person(), "month": int(choose.chance.integers(1, 13))}


def _of_country(choose: _Chooser) -> Parameters:
    person, found = _near(choose, choose.job_near)
    job = found or 0
    return {
        "personId": person,
        "countryName": COUNTRIES[int(choose.job_countries[job])],
        "workFromYear": int(choose.job_years[job]) + int(choose.chance.integers(1, 6)),
    }


def _of_class(choose: _Chooser) -> Parameters:
    return {"personId": choose.person(), "tagClassName": choose.classes[int(choose.chance.integers(0, 6))]}


def _of_two(choose: _Chooser) -> Parameters:
    one, other = choose.chance.choice(choose.people, 2, replace=False).tolist()
    return {"person1Id": one, "person2Id": other}


_CHOICES: Mapping[str, Callable[[_Chooser], Parameters]] = {
    "is1": _of_person,
    "is2": _of_person,
    "is3": _of_person,
    "is4": _of_message,
    "is5": _of_message,
    "is6": _of_message,
    "is7": _of_replied,
    "ic1": _of_name,
    "ic2": _until,
    "ic3": _of_countries,
    "ic4": _of_interval,
    "ic5": _since,
    "ic6": _of_tag,
    "ic7": _of_person,
    "ic8": _of_person,
    "ic9": _until,
    "ic10": _of_month,
    "ic11": _of_country,
    "ic12": _of_class,
    "ic13": _of_two,
    "ic14": _of_two,
}
