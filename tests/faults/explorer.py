"""An exhaustive explorer: every order in which programs can use one storage, and every fault on the way.

A program is a list of steps, each a function of (storage, value of the step before) and of nothing
else, so the answers that a step has received say all of its state: to learn what it asks for next it
is run again from its start with these answers. A state is then (what is stored, where each program
is, faults left, writes still on their way), and each state is visited once.
"""

import functools
import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, NoReturn

from curate.core.errors import CurateError, StorageError
from curate.core.hashing import canonical_json, sha256
from curate.core.storage import NotFound, ObjectFile, Storage, Stored

Step = Callable[[Storage, Any], Any]  # the value goes to the next step; END ends the program
Program = Sequence[Step]
TagOf = Callable[[bytes, str | None], str]  # (data, tag before) -> tag
END = object()
NO_ANSWER = object()


@dataclass(frozen=True, eq=False)
class Request:
    """One call of a storage. Equal ones are one object: see `request_for`."""

    method: str
    key: str
    data: bytes = b""
    expected: str | None = None


@functools.cache
def request_for(method: str, key: str, data: bytes = b"", expected: str | None = None) -> Request:
    """The request with these fields."""
    return Request(method, key, data, expected)


class SuspendedError(BaseException):
    """The program asks for something that has no answer yet."""

    def __init__(self, request: Request) -> None:
        super().__init__(request)
        self.request = request


class Asker(Storage):
    """A storage as a program sees it: each call is one request."""

    url = "memory"

    def ask(self, request: Request) -> Any:
        """The answer. Raises StorageError where it is one."""
        raise NotImplementedError

    def list(self, prefix: str = "") -> Iterator[Stored]:
        """Not explored: a listing only hints."""
        raise NotImplementedError

    def open(self, key: str, size: int | None = None, tag: str | None = None) -> ObjectFile:
        """Not explored: commits do not read inputs."""
        raise NotImplementedError

    def delete(self, key: str) -> NoReturn:
        """Not explored: nothing that counts is ever deleted."""
        raise NotImplementedError

    def stat(self, key: str) -> Stored | None:
        """See Storage."""
        answer: Stored | None = self.ask(request_for("stat", key))
        return answer

    def read(self, key: str, offset: int = 0, length: int | None = None) -> bytes:
        """See Storage."""
        answer: bytes | None = self.ask(request_for("read", key))
        if answer is None:
            raise NotFound(key)
        return answer

    def put(self, key: str, data: bytes | memoryview) -> bool:
        """See Storage."""
        return bool(self.ask(request_for("put", key, bytes(data))))

    def swap(self, key: str, data: bytes, expected: str | None) -> bool:
        """See Storage."""
        return bool(self.ask(request_for("swap", key, data, expected)))


class Replay(Asker):
    """Gives recorded answers, then stops the program."""

    def __init__(self, answers: list[Any]) -> None:
        self._answers = iter(answers)

    def ask(self, request: Request) -> Any:
        """See Asker."""
        for answer in self._answers:
            if answer is NO_ANSWER:
                raise StorageError("no answer")
            return answer
        raise SuspendedError(request)


def content_tag(data: bytes, before: str | None) -> str:
    """As S3's ETag: equal bytes, equal tag."""
    return sha256(data)[:16]


def version_tag(data: bytes, before: str | None) -> str:
    """As a local file's mtime: later at each write."""
    return str(int(before or 0) + 1)


class World:
    """What is stored. Equal worlds of one explorer are one object."""

    def __init__(self, objects: dict[str, tuple[bytes, str]], tag_of: TagOf, known: "dict[Any, World]") -> None:
        self.objects = objects  # key -> (data, tag)
        self._tag_of = tag_of
        self._known = known
        self._following: dict[Request, tuple[World, Any]] = {}

    def perform(self, request: Request) -> "tuple[World, Any]":
        """The world afterwards, and the answer."""
        if request not in self._following:
            self._following[request] = self._perform(request)
        return self._following[request]

    def _perform(self, request: Request) -> "tuple[World, Any]":
        data, tag = self.objects.get(request.key, (None, None))
        if request.method == "stat":
            return self, None if data is None or tag is None else Stored(request.key, len(data), tag)
        if request.method == "read":
            return self, data
        if tag != (None if request.method == "put" else request.expected):
            return self, False
        objects = self.objects | {request.key: (request.data, self._tag_of(request.data, tag))}
        world = World(objects, self._tag_of, self._known)
        return self._known.setdefault(frozenset(objects.items()), world), True


class Moment:
    """A program after some answers: what it asks for next, or how it ended ("done", or an error's class)."""

    def __init__(self, program: Program, known: "dict[Any, Moment]", step: int, value: Any, answers: list[Any]) -> None:
        self.request: Request | None = None
        self.end: str | None = None
        self.value: bytes | None = None  # canonical JSON of what the last step returned
        self._program = program
        self._known = known  # beginnings of steps, by (step, value)
        self._step = step
        self._given = value
        self._answers = answers
        self._following: dict[Any, Moment] = {}

    @classmethod
    def first(cls, program: Program) -> "Moment":
        """Before any answer."""
        return cls._begin(program, {}, 0, None)

    @classmethod
    def _begin(cls, program: Program, known: "dict[Any, Moment]", step: int, value: Any) -> "Moment":
        key = (step, canonical_json(value))
        if key not in known:
            known[key] = cls(program, known, step, value, [])._run()
        return known[key]

    def after(self, answer: Any) -> "Moment":
        """The program when it has received the answer."""
        if answer not in self._following:
            moment = Moment(self._program, self._known, self._step, self._given, [*self._answers, answer])
            self._following[answer] = moment._run()
        return self._following[answer]

    def _run(self) -> "Moment":
        try:
            value = self._program[self._step](Replay(self._answers), self._given)
        except SuspendedError as stop:
            self.request = stop.request
        except CurateError as error:
            self.end = type(error).__name__
        else:
            if value is not END and self._step + 1 < len(self._program):
                return self._begin(self._program, self._known, self._step + 1, value)
            self.end = "done"
            self.value = None if value is END else canonical_json(value)
        return self


class State(NamedTuple):
    """Of all programs together."""

    world: World
    moments: tuple[Moment, ...]
    faults: int
    late: frozenset[Request]

    @property
    def ends(self) -> tuple[str, ...] | None:
        """How the programs ended, or None while one has not."""
        ends = tuple(moment.end for moment in self.moments if moment.end is not None)
        return ends if len(ends) == len(self.moments) else None


@dataclass
class Explorer:
    """All states that programs can reach together.

    So many faults may strike in all: a crash before or after a request took effect, after which the
    program begins anew; an error instead of an answer, likewise; the answer False to a write that was
    done; and a write that is done at any later time, whatever became of its program.
    """

    programs: Sequence[Program]  # equal ones are one object, side by side
    faults: int
    tag_of: TagOf

    def __post_init__(self) -> None:
        self._starts: tuple[Moment, ...] = ()
        self._alike: list[slice] = []
        for _, group in itertools.groupby(self.programs, key=id):
            alike = list(group)
            self._alike.append(slice(len(self._starts), len(self._starts) + len(alike)))
            self._starts += (Moment.first(alike[0]),) * len(alike)

    def states(self) -> Iterator[State]:
        """Each state once."""
        first = State(self.empty_world(), self._starts, self.faults, frozenset())
        seen, stack = {first}, [first]
        while stack:
            state = stack.pop()
            yield state
            for successor in self._successors(state):
                if successor not in seen:
                    seen.add(successor)
                    stack.append(successor)

    def empty_world(self) -> World:
        """Nothing is stored."""
        known: dict[Any, World] = {}
        return known.setdefault(frozenset(), World({}, self.tag_of, known))

    def _successors(self, state: State) -> Iterator[State]:
        world, moments, faults, late = state
        for one in late:
            yield State(world.perform(one)[0], moments, faults, late - {one})
        for index, moment in enumerate(moments):
            if moment.request is None:
                continue
            for there, then, cost, also_late in _choices(world, moment, moment.request, self._starts[index], faults):
                following = self._in_order((*moments[:index], then, *moments[index + 1 :]))
                yield State(there, following, faults - cost, late | also_late)

    def _in_order(self, moments: tuple[Moment, ...]) -> tuple[Moment, ...]:
        """Which of the programs that are alike is where makes no difference: they stand side by side."""
        return tuple(moment for group in self._alike for moment in sorted(moments[group], key=id))


def _choices(
    world: World, moment: Moment, asked: Request, start: Moment, faults: int
) -> Iterator[tuple[World, Moment, int, frozenset[Request]]]:
    """What can become of a program's request: (world, the program then, faults that this took, writes on their way)."""
    none = frozenset[Request]()
    done, answer = world.perform(asked)
    yield done, moment.after(answer), 0, none
    if not faults:
        return
    for then in (start, moment.after(NO_ANSWER)):
        yield world, then, 1, none
        if done is not world:
            yield done, then, 1, none
        if asked.method in ("put", "swap"):
            yield world, then, 1, frozenset([asked])
    if done is not world:
        yield done, moment.after(False), 1, none


def run_alone(program: Program, world: World) -> tuple[World, str | None]:
    """The world after a program has run in it undisturbed, and how it ended."""
    moment = Moment.first(program)
    while moment.request is not None:
        world, answer = world.perform(moment.request)
        moment = moment.after(answer)
    return world, moment.end
