"""A social network of the shape of LDBC SNB, made with numpy: the same for the same number of persons and seed.

What is kept of SNB: the average number of friends as a function of the number of persons, skewed degrees, friends who
live or study near each other or share interests, three years of activity, walls, albums and groups, threads of
comments, tags that follow the interests of people, and ids of messages in the order of time. In SNB a person of scale
factor 1 has about 100 posts, 200 comments and 220 likes. Here it is `MESSAGES_KEPT` of that, so that a machine of two
cores loads and asks 10 000 persons in minutes.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

_Numbers: TypeAlias = NDArray[Any]
_Tables: TypeAlias = dict[str, pa.Table]

MESSAGES_KEPT = 0.2
POSTS, COMMENTS, LIKES = (round(each * MESSAGES_KEPT) for each in (100, 200, 220))
"""How many of each a person has on average."""
FORUMS = 3
"""How many forums a person moderates on average: a wall, albums, and now and then a group."""

_DAY = 24 * 60 * 60 * 1000
BEGIN, END = (int(np.datetime64(day, "ms").astype(np.int64)) for day in ("2010-01-01", "2013-01-01"))
"""Between these instants everything happens, in milliseconds."""

CONTINENTS = ("Africa", "America", "Asia", "Europe", "Oceania")
COUNTRIES = tuple(
    f"{stem}{end}"
    for end in ("ia", "land", "stan", "ana")
    for stem in ("Ald", "Bren", "Cor", "Dal", "Est", "Fer", "Gor")
)
_SHARED_NAMES = 12
_STEMS = ("An", "Bo", "Ca", "Di", "El", "Fa", "Gi", "Ha", "Io", "Ju", "Ka", "Li", "Mo", "Na", "Or", "Pe", "Ru", "Sa")
FIRST_NAMES = tuple(f"{stem}{end}" for end in ("na", "ron", "lia", "mir", "dor", "vi") for stem in _STEMS)
_LAST_NAMES = tuple(
    f"{stem}{end}" for end in ("berg", "ova", "son", "ez", "wala", "kin", "ton", "chi") for stem in _STEMS
)
_BROWSERS = ("Firefox", "Chrome", "Internet Explorer", "Safari", "Opera")
_WORDS = tuple(f"{stem.lower()}{end}" for end in ("do", "ment", "ring", "ly", "sta", "per", "quo") for stem in _STEMS)
_CITIES_EACH, _UNIVERSITIES_EACH, _COMPANIES_EACH = 8, 4, 12
_CLASSES = 70
_SHARES = ((0.45, 12.0), (0.45, 12.0), (0.10, 1e9))
"""Which part of friendships comes from study and place, from interests, and from chance, and how far they reach."""


def tags_of(persons: int) -> int:
    """The number of tags: SNB has 16 080; fewer for few persons, so that people still share some."""
    return max(60, min(4000, persons // 4))


@dataclass(frozen=True, slots=True)
class Network:
    """The tables of a network by the types of nodes and edges."""

    persons: int
    nodes: Mapping[str, pa.Table]
    edges: Mapping[str, pa.Table]

    def write(self, folder: Path) -> dict[str, Path]:
        """One Parquet file for each type, in the order in which databases need them."""
        files = {}
        for name, table in (*self.nodes.items(), *self.edges.items()):
            files[name] = folder / f"{name}.parquet"
            pq.write_table(table, files[name])
        return files


def make_network(persons: int, seed: int = 1) -> Network:
    """A network of so many persons."""
    return _Maker(persons, np.random.default_rng([seed, persons])).make()


@dataclass(frozen=True, slots=True)
class _Groups:
    """Numbers in groups: those of group ``g`` stand at ``offsets[g]`` to ``offsets[g + 1]``."""

    offsets: _Numbers
    members: _Numbers

    @classmethod
    def of(cls, groups: _Numbers, members: _Numbers, count: int) -> "_Groups":
        order = np.argsort(groups, kind="stable")
        return cls(np.concatenate(([0], np.cumsum(np.bincount(groups, minlength=count)))), members[order])

    def pick(self, groups: _Numbers, chance: np.random.Generator, otherwise: _Numbers) -> _Numbers:
        """A random member of each group, or what stands for it if it is empty."""
        firsts, sizes = self.offsets[groups], self.offsets[groups + 1] - self.offsets[groups]
        at = firsts + (chance.random(len(groups)) * sizes).astype(np.int64)
        return np.where(sizes > 0, self.members[np.minimum(at, len(self.members) - 1)], otherwise)


class _Maker:
    def __init__(self, persons: int, chance: np.random.Generator) -> None:
        self.count, self.chance = persons, chance
        self.nodes: _Tables = {}
        self.edges: _Tables = {}

    def make(self) -> Network:
        self._make_places()
        self._make_tags()
        self._make_persons()
        self._make_friends()
        self._make_forums()
        self._make_posts()
        self._make_comments()
        self._make_messages()
        self._make_likes()
        return Network(self.count, self.nodes, self.edges)

    # --- the world ---

    def _make_places(self) -> None:
        countries = len(COUNTRIES)
        cities = np.arange(countries * _CITIES_EACH)
        universities = np.arange(countries * _UNIVERSITIES_EACH)
        companies = np.arange(countries * _COMPANIES_EACH)
        self.country_of_city = cities // _CITIES_EACH
        for name, names in (
            ("Continent", CONTINENTS),
            ("Country", COUNTRIES),
            ("City", [f"{COUNTRIES[at // _CITIES_EACH]} City {at % _CITIES_EACH}" for at in cities]),
            (
                "University",
                [
                    f"University {at % _UNIVERSITIES_EACH} of {COUNTRIES[at // _UNIVERSITIES_EACH]}"
                    for at in universities
                ],
            ),
            ("Company", [f"{COUNTRIES[at // _COMPANIES_EACH]} Works {at % _COMPANIES_EACH}" for at in companies]),
        ):
            self.nodes[name] = pa.table({"id": np.arange(len(names)), "name": list(names)})
        self.edges["CountryIsPartOf"] = _ends(np.arange(countries), np.arange(countries) % len(CONTINENTS))
        self.edges["CityIsPartOf"] = _ends(cities, self.country_of_city)
        first_city = (universities // _UNIVERSITIES_EACH) * _CITIES_EACH
        self.edges["UniversityIsIn"] = _ends(universities, first_city + universities % _UNIVERSITIES_EACH)
        self.edges["CompanyIsIn"] = _ends(companies, companies // _COMPANIES_EACH)

    def _make_tags(self) -> None:
        self.tags = tags_of(self.count)
        classes = np.arange(_CLASSES)
        self.nodes["TagClass"] = pa.table({"id": classes, "name": [f"Class {at}" for at in classes]})
        self.nodes["Tag"] = pa.table({"id": np.arange(self.tags), "name": [f"Tag {at}" for at in range(self.tags)]})
        self.edges["IsSubclassOf"] = _ends(classes[1:], (classes[1:] - 1) // 3)
        self.edges["HasType"] = _ends(np.arange(self.tags), self.chance.integers(0, _CLASSES, self.tags))

    # --- people ---

    def _make_persons(self) -> None:
        chance, count = self.chance, self.count
        self.person_ids = np.arange(count) * 7 + 1000
        country = _zipf(chance, len(COUNTRIES), count, 0.6)
        city = country * _CITIES_EACH + _zipf(chance, _CITIES_EACH, count, 0.8)
        first = np.where(
            chance.random(count) < 0.7,
            (country * 5 + _zipf(chance, _SHARED_NAMES, count, 1.0)) % len(FIRST_NAMES),
            chance.integers(0, len(FIRST_NAMES), count),
        )
        last = (country * 7 + _zipf(chance, 40, count, 0.8)) % len(_LAST_NAMES)
        self.joined = BEGIN + (chance.random(count) ** 1.3 * (END - BEGIN) * 0.85).astype(np.int64)
        birthday = (np.datetime64("1975-01-01") + chance.integers(0, 18 * 365, count)).astype("datetime64[D]")
        self.country, self.first_names = country, first
        spoken = np.stack((country, np.full(count, len(COUNTRIES))), 1).ravel()
        languages = _texts([f"l{at}" for at in range(len(COUNTRIES) + 1)], spoken)
        emails = pc.binary_join_element_wise("p", pa.array(self.person_ids).cast(pa.string()), "@example.org", "")
        self.nodes["Person"] = pa.table(
            {
                "id": self.person_ids,
                "firstName": _texts(FIRST_NAMES, first),
                "lastName": _texts(_LAST_NAMES, last),
                "gender": _texts(("male", "female"), chance.integers(0, 2, count)),
                "birthday": pa.array(birthday),
                "creationDate": _instants(self.joined),
                "locationIP": self._addresses(count),
                "browserUsed": _texts(_BROWSERS, _zipf(chance, len(_BROWSERS), count, 0.7)),
                "languages": _lists(languages, 2),
                "emails": _lists(emails, 1),
            }
        )
        self.edges["LivesIn"] = _ends(self.person_ids, city)
        studied = np.flatnonzero(chance.random(count) < 0.8)
        university = country[studied] * _UNIVERSITIES_EACH + _zipf(chance, _UNIVERSITIES_EACH, len(studied), 0.8)
        years = (
            birthday[studied].astype("datetime64[Y]").astype(np.int64) + 1970 + chance.integers(18, 25, len(studied))
        )
        self.edges["StudyAt"] = _ends(self.person_ids[studied], university, classYear=pa.array(years, pa.int32()))
        self._make_jobs()
        self._make_interests()
        self.study_key = np.full(count, -1.0)
        self.study_key[studied] = university * 100.0 + (years - 1990)
        self.study_key = np.where(self.study_key < 0, city * 50.0, self.study_key)

    def _make_jobs(self) -> None:
        chance = self.chance
        jobs = np.repeat(np.arange(self.count), chance.integers(0, 4, self.count))
        abroad = chance.random(len(jobs)) < 0.1
        country = np.where(abroad, _zipf(chance, len(COUNTRIES), len(jobs), 0.6), self.country[jobs])
        company = country * _COMPANIES_EACH + chance.integers(0, _COMPANIES_EACH, len(jobs))
        pairs = np.unique(jobs * 10_000 + company)
        jobs, company = np.divmod(pairs, 10_000)
        years = pa.array(chance.integers(1998, 2013, len(jobs)), pa.int32())
        self.edges["WorkAt"] = _ends(self.person_ids[jobs], company, workFrom=years)

    def _make_interests(self) -> None:
        """Each person likes some tags; people of one country often the same ones."""
        chance = self.chance
        who = np.repeat(np.arange(self.count), chance.integers(3, 30, self.count))
        local = (self.country[who] * 37 + _zipf(chance, self.tags, len(who), 1.0)) % self.tags
        tag = np.where(chance.random(len(who)) < 0.6, local, _zipf(chance, self.tags, len(who), 0.9))
        who, tag = np.divmod(np.unique(who * self.tags + tag), self.tags)
        self.interests = _Groups.of(who, tag, self.count)
        self.edges["HasInterest"] = _ends(self.person_ids[who], tag)

    def _make_friends(self) -> None:
        """Friends are near each other by study and place, or by interests, or anywhere; some people have many."""
        chance, count = self.chance, self.count
        mean = count ** (0.512 - 0.028 * np.log10(count))  # the published curve of SNB
        wanted = chance.lognormal(-0.5, 1.0, count) * mean
        favourite = self.interests.pick(np.arange(count), chance, np.zeros(count, np.int64))
        keys = (self.study_key, favourite.astype(np.float64), chance.random(count))
        pairs = []
        for key, (share, reach) in zip(keys, _SHARES, strict=True):
            order = np.lexsort((chance.random(count), key))
            place = np.empty(count, np.int64)
            place[order] = np.arange(count)
            who = np.repeat(np.arange(count), chance.poisson(wanted * share / 2))
            away = 1 + np.minimum(chance.exponential(reach * mean / 12, len(who)), count).astype(np.int64)
            other = order[(place[who] + np.where(chance.random(len(who)) < 0.5, away, -away)) % count]
            pairs.append(np.minimum(who, other) * count + np.maximum(who, other))
        one, other = np.divmod(np.unique(np.concatenate(pairs)), count)
        one, other = one[one != other], other[one != other]
        turned = chance.random(len(one)) < 0.5
        one, other = np.where(turned, one, other), np.where(turned, other, one)
        met = self._after(np.maximum(self.joined[one], self.joined[other]), 120)
        self.friends = _Groups.of(np.concatenate((one, other)), np.concatenate((other, one)), count)
        ends = _ends(self.person_ids[one], self.person_ids[other], creationDate=_instants(met))
        self.edges["Knows"] = ends.take(pa.array(chance.permutation(len(one))))

    # --- forums ---

    def _make_forums(self) -> None:
        chance, count = self.chance, self.count
        kinds = np.concatenate((np.zeros(count), np.ones(int(1.7 * count)), np.full(int(0.3 * count), 2))).astype(int)
        moderator = np.concatenate((np.arange(count), chance.integers(0, count, len(kinds) - count)))
        made = self._after(self.joined[moderator], 100)
        order = np.argsort(made, kind="stable")
        kinds, moderator, made = kinds[order], moderator[order], made[order]
        self.forum_ids = np.arange(len(kinds)) * 3 + 500
        self.moderator, self.forum_made = moderator, made
        self.nodes["Forum"] = pa.table(
            {
                "id": self.forum_ids,
                "title": pc.binary_join_element_wise(
                    _texts(("Wall of", "Album of", "Group for"), kinds),
                    self.nodes["Person"]["firstName"].combine_chunks().take(pa.array(moderator)),
                    pa.array(self.forum_ids).cast(pa.string()),
                    " ",
                ),
                "creationDate": _instants(made),
            }
        )
        self.edges["HasModerator"] = _ends(self.forum_ids, self.person_ids[moderator])
        forum, member = self._members(kinds)
        joined = self._after(np.maximum(made[forum], self.joined[member]), 150)
        self.member_forum, self.member, self.member_joined = forum, member, joined
        dates = _instants(joined)
        self.edges["HasMember"] = _ends(self.forum_ids[forum], self.person_ids[member], joinDate=dates)
        about = np.repeat(np.arange(len(kinds)), chance.integers(1, 5, len(kinds)))
        tag = self.interests.pick(moderator[about], chance, chance.integers(0, self.tags, len(about)))
        about, tag = np.divmod(np.unique(about * self.tags + tag), self.tags)
        self.forum_tags = _Groups.of(about, tag, len(kinds))
        self.edges["ForumHasTag"] = _ends(self.forum_ids[about], tag)

    def _members(self, kinds: _Numbers) -> tuple[_Numbers, _Numbers]:
        """Friends of the moderator, in groups also friends of these."""
        chance, degrees = self.chance, np.diff(self.friends.offsets)
        wanted = np.where(kinds == 2, 20 + chance.lognormal(3.0, 0.8, len(kinds)), degrees[self.moderator] * 0.3)
        forum = np.repeat(np.arange(len(kinds)), np.maximum(wanted, 1).astype(np.int64))
        member = self.friends.pick(self.moderator[forum], chance, self.moderator[forum])
        far = (kinds[forum] == 2) & (chance.random(len(forum)) < 0.6)
        member[far] = self.friends.pick(member[far], chance, member[far])
        forum, member = np.divmod(np.unique(forum * self.count + member), self.count)
        return forum, member

    # --- messages ---

    def _make_posts(self) -> None:
        chance = self.chance
        activity = chance.lognormal(-0.5, 1.0, self.count)
        weights = np.cumsum(activity[self.member])
        count = POSTS * self.count
        at = np.searchsorted(weights, chance.random(count) * weights[-1])
        at = np.minimum(at, len(self.member) - 1)
        self.activity = activity
        self.post_forum, self.creator = self.member_forum[at], self.member[at]
        self.made = self._after(self.member_joined[at], 500)
        self.posts = count

    def _make_comments(self) -> None:
        """Half of the comments reply to posts, half to earlier comments; repliers are friends, or who wrote before."""
        chance, posts, count = self.chance, self.posts, COMMENTS * self.count
        popularity = np.cumsum(chance.lognormal(-0.5, 1.0, posts))
        on_posts = np.minimum(np.searchsorted(popularity, chance.random(count) * popularity[-1]), posts - 1)
        earlier = posts + (chance.random(count) * np.arange(count)).astype(np.int64)
        is_direct = (chance.random(count) < 0.5) | (np.arange(count) == 0)
        self.parent = np.concatenate((np.full(posts, -1), np.where(is_direct, on_posts, earlier)))
        made, creator = (np.concatenate((each, np.full(count, -1))) for each in (self.made, self.creator))
        root = np.concatenate((np.arange(posts), np.full(count, -1)))
        pending = posts + np.arange(count)
        while len(pending):
            parents = self.parent[pending]
            is_ready = made[parents] >= 0
            ready, parents = pending[is_ready], parents[is_ready]
            made[ready] = self._after(made[parents], 3)
            author = creator[parents]
            creator[ready] = np.where(
                chance.random(len(ready)) < 0.9, self.friends.pick(author, chance, author), creator[root[parents]]
            )
            root[ready] = root[parents]
            pending = pending[~is_ready]
        self.made, self.creator, self.root = made, creator, root

    def _make_messages(self) -> None:
        chance, posts = self.chance, self.posts
        count = len(self.made)
        order = np.lexsort((np.arange(count), self.made))
        number = np.empty(count, np.int64)
        number[order] = np.arange(count)
        is_post = order < posts
        self.made, self.creator, root = self.made[order], self.creator[order], number[self.root[order]]
        self.parent = np.where(is_post, -1, number[self.parent[order]])
        self.message_ids = np.arange(count) * 11 + 100_000
        forum = np.full(count, -1)
        forum[is_post] = self.post_forum[order[is_post]]
        has_image = is_post & (chance.random(count) < 0.1)
        words = [_texts(_WORDS, _zipf(chance, len(_WORDS), count, 0.5)) for _ in range(5)]
        content = pc.binary_join_element_wise("About", *words, " ")
        written_in = _texts(("en", "es", "zh"), chance.integers(0, 3, count))
        image = pc.binary_join_element_wise("photo", pa.array(self.message_ids).cast(pa.string()), ".jpg", "")
        self.nodes["Message"] = pa.table(
            {
                "id": self.message_ids,
                "kind": _texts(("comment", "post"), is_post.astype(int)),
                "creationDate": _instants(self.made),
                "content": pc.if_else(pa.array(has_image), None, content),
                "imageFile": pc.if_else(pa.array(has_image), image, None),
                "length": pc.if_else(pa.array(has_image), pa.scalar(0, pa.int32()), pc.utf8_length(content)),
                "language": pc.if_else(pa.array(is_post), written_in, None),
                "locationIP": self._addresses(count),
                "browserUsed": _texts(_BROWSERS, _zipf(chance, len(_BROWSERS), count, 0.7)),
            }
        )
        abroad = chance.random(count) < 0.15
        country = np.where(abroad, _zipf(chance, len(COUNTRIES), count, 0.6), self.country[self.creator])
        self.edges["HasCreator"] = _ends(self.message_ids, self.person_ids[self.creator])
        self.edges["IsLocatedIn"] = _ends(self.message_ids, country)
        replies = np.flatnonzero(~is_post)
        self.edges["ReplyOf"] = _ends(self.message_ids[replies], self.message_ids[self.parent[replies]])
        there = np.flatnonzero(is_post)
        self.edges["ContainerOf"] = _ends(self.forum_ids[forum[there]], self.message_ids[there])
        self._make_message_tags(is_post, forum[root])

    def _make_message_tags(self, is_post: _Numbers, forum: _Numbers) -> None:
        """Posts have tags of their forum or of what their creator likes, comments fewer of the same forum."""
        chance = self.chance
        wanted = np.where(is_post, chance.integers(0, 4, len(forum)), chance.integers(0, 3, len(forum)))
        message = np.repeat(np.arange(len(forum)), wanted)
        nothing = chance.integers(0, self.tags, len(message))
        of_forum = self.forum_tags.pick(forum[message], chance, nothing)
        of_person = self.interests.pick(self.creator[message], chance, nothing)
        tag = np.where(chance.random(len(message)) < 0.6, of_forum, of_person)
        message, tag = np.divmod(np.unique(message * self.tags + tag), self.tags)
        self.edges["HasTag"] = _ends(self.message_ids[message], tag)

    def _make_likes(self) -> None:
        chance = self.chance
        popularity = np.cumsum(chance.lognormal(-0.5, 1.0, len(self.made)))
        count = LIKES * self.count
        at = np.minimum(np.searchsorted(popularity, chance.random(count) * popularity[-1]), len(self.made) - 1)
        who = self.friends.pick(self.creator[at], chance, self.creator[at])
        is_far = chance.random(count) < 0.25
        who[is_far] = self.friends.pick(who[is_far], chance, who[is_far])
        who, at = np.divmod(np.unique(who * len(self.made) + at), len(self.made))
        date = _instants(self._after(self.made[at], 7))
        likes = _ends(self.person_ids[who], self.message_ids[at], creationDate=date)
        self.edges["Likes"] = likes.take(pa.array(chance.permutation(len(who))))

    # --- values ---

    def _after(self, instants: _Numbers, days: float) -> _Numbers:
        """Later instants, often soon and never after the end."""
        later = instants + 1000 + (self.chance.exponential(days, len(instants)) * _DAY).astype(np.int64)
        beyond = later >= END
        later[beyond] = instants[beyond] + (self.chance.random(int(beyond.sum())) * (END - instants[beyond])).astype(
            np.int64
        )
        return later

    def _addresses(self, count: int) -> pa.Array:
        parts = [_texts([str(at) for at in range(256)], self.chance.integers(1, 255, count)) for _ in range(4)]
        return pc.binary_join_element_wise(*parts, ".")


def _zipf(chance: np.random.Generator, size: int, count: int, skew: float) -> _Numbers:
    """Numbers below a size, of which the small ones are more frequent."""
    weights = np.cumsum(1.0 / (np.arange(size) + 1) ** skew)
    numbers: _Numbers = np.minimum(np.searchsorted(weights, chance.random(count) * weights[-1]), size - 1)
    return numbers


def _ends(begins: _Numbers, ends: _Numbers, **properties: pa.Array) -> pa.Table:
    return pa.table({"from": begins, "to": ends, **properties})


def _texts(texts: Sequence[str], places: _Numbers) -> pa.Array:
    return pa.array(texts).take(pa.array(places))


def _lists(values: pa.Array, each: int) -> pa.ListArray:
    return pa.ListArray.from_arrays(pa.array(np.arange(0, len(values) + 1, each), pa.int32()), values)


def _instants(milliseconds: _Numbers) -> pa.Array:
    return pa.array(milliseconds.astype("datetime64[ms]"), pa.timestamp("ms", "UTC"))


def sizes(network: Network) -> Iterator[tuple[str, int]]:
    """How many nodes and edges of each type there are."""
    for name, table in (*network.nodes.items(), *network.edges.items()):
        yield name, table.num_rows
