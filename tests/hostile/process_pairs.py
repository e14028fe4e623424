"""Cases of two processes at a time, and of random orders of steps that learn and forget."""

from random import Random
from threading import Event

from cases import hostile, valid
from judge import Trial
from kills import content
from processes import Process, Service, Wrong, command, verdict
from service_trials import together
from world import Options, Room, word_of

TRAININGS = ("train-retriever", "train-dialog-encoder", "train-composer")


def both(
    room: Room, rng: Random, calls: list[tuple[str, Options]], right: tuple[int, ...] = (0, 2)
) -> list[int]:
    """Exit codes of two commands, of which one starts a moment after the other."""
    started: list[Process] = []
    try:
        for number, (name, options) in enumerate(calls):
            started.append(command(name, options, room.path(f"command{number}")))
            Event().wait(rng.choice((0, 0.1, 0.5)) * rng.random())
        return [one.ended(right) for one in started]
    finally:
        for one in started:
            one.kill()


@hostile("two trainings into a run", 60, 1)
def two_trainings(room: Room, rng: Random) -> Trial:
    """The end is that of one of them alone, and the other is refused."""
    name, out = rng.choice(TRAININGS), room.path("out")
    options, seeds = {**valid(room)[name][0], "run": out}, rng.sample(range(9), 2)

    def play() -> str:
        codes = both(room, rng, [(name, {**options, "seed": seed}) for seed in seeds])
        if codes.count(0) != 1:
            raise Wrong("silent wrong", f"exit codes {codes}")
        alone = {**options, "seed": seeds[codes.index(0)], "run": room.path("alone")}
        command(name, alone, room.path("third")).ended((0,))
        found, expected = content(out), content(room.path("alone"))
        if odd := [one for one in found.keys() | expected.keys() if found.get(one) != expected.get(one)]:
            raise Wrong("silent wrong", f"other than of one training alone: {sorted(odd)}")
        return "accepted"

    return Trial([name, name], f"seeds {seeds}", verdict(play))


@hostile("learn beside another command", 60, 1)
def learn_beside(room: Room, rng: Random) -> Trial:
    """`learn` beside forget, a training into the same folder, or another learn; then what is erased is nowhere."""
    url, out, one = f"sqlite:///{room.copy('log.db')}", room.path("out"), rng.randrange(16)
    forget: Options = {"database": url, "session": f"s{one}"}
    learn: Options = {
        "run": room.world.runs["retriever"],
        "database": url,
        "out": out,
        "epochs": 1,
        "min_targets": 2,
    }
    training: Options = {**valid(room)["train-retriever"][0], "run": out / "run"}
    second = rng.choice(
        (("forget", forget), ("forget", forget), ("train-retriever", training), ("learn", learn))
    )
    calls = [("learn", learn), second]
    rng.shuffle(calls)

    def play() -> str:
        both(room, rng, calls, (0, 1, 2))
        command("forget", forget, room.path("last")).ended((0, 2))
        word = word_of(one).encode()
        files = [path for path in room.folder.rglob("*") if path.is_file()]
        if found := [str(path.relative_to(room.folder)) for path in files if word in path.read_bytes()]:
            raise Wrong("silent wrong", f"{word.decode()} is left in {found}")
        return "accepted"

    return Trial(["learn"], f"beside {second[0]}", verdict(play))


@hostile("two services on a database", 60, 1)
def two_services(room: Room, rng: Random) -> Trial:
    """Both acknowledge, `forget` erases beside them, and one may be killed; nothing acknowledged is lost."""
    killed, forgets = rng.random() < 0.3, rng.random() < 0.5

    def play() -> str:
        given: Options = {"run": room.world.runs["retriever"]}
        first = Service(room.folder, given)
        second = Service(room.folder, given, "second")
        try:
            second.shopping(rng, 2)
            together(first, rng, 3, lambda: second.shopping(rng, 6))
            if forgets and first.sessions:
                id = rng.choice([*first.sessions])
                url = f"sqlite:///{first.database}"
                command("forget", {"database": url, "session": id}, room.path("forget")).ended((0, 1))
                first.forgotten(id)
            second.process.kill() if killed else second.end()
            first.shopping(rng, 2)
            first.end()
            for one in (first, second):
                one.check()
        finally:
            first.close()
            second.close()
        return "accepted"

    return Trial(["serve", "serve"], f"{killed=}, {forgets=}", verdict(play))


@hostile("orders of learn and forget", 400, 1)
def orders(room: Room, rng: Random) -> Trial:
    """Random orders of {learn, fail, kill, move away, move back, forget, export, learn again}."""
    seed = str(rng.random())

    def play() -> str:
        process = Process("order", room.path("order"), folder=room.folder, seed=seed)
        try:
            if process.wait():
                raise Wrong("silent wrong", process.said()[-3000:])
        finally:
            process.kill()
        return "accepted"

    return Trial(["learn", "forget"], f"order {seed}", verdict(play))
