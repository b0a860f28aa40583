"""Memory of a run: the layout of its structures, of 8-byte fields that refer to each other by address, and the arena in
which they stay in place."""

from __future__ import annotations

from functools import cache, partial
from struct import Struct
from typing import Any

import numpy as np

from twin.machine.checks import know
from twin.machine.native import accessor, structure

# structures ----------------------------------------------------------------------------------------------------------
# Views of `twin.world` have the fields as attributes and say what they mean. `here` is a structure's own address,
# `slot` its place in the calendar. Lists are linked through fields. Structures do not move while a run goes on: items
# come from chunks, and arrays that must grow are replaced by Python, which then changes their one address.


NONE = -1
"""Slot of a structure that is never due by itself; value of a field that a logic does not have."""
LEAST_ROOM = 256
"""Least room of arrays that grow."""

STATE = structure(
    "here sequence event_sequence free call_python work_on wake_up refill slots times orders tree kinds owners stopped "
    "lanes left subject until_order what",
    "now until asked",
)
ITEM = structure(
    "next key path sender order step mark at_us end_us digest count tree",
    "born_s taken_s left_s at_s sent_s latency_s lot ready_s came_s",
)
"""ready_s: when the last thing that it waited for was there: the end of its window, or the taking of its last record.
came_s: when it came, of one that was put aside meanwhile, and later by that time. at_us, digest: event time of a
record, and random bits by which it is audited. A partial result is over the span from at_us to end_us, of `count`
records. Of a mark, born_s is the value, and `mark` the kind. tree: the root of what its source's record has become, if
that is counted; 0 of unused items. Of a root, `count` is the number of its records, and `sender` the source's task."""
TASK = structure(
    "here slot busy blocked halted queued records_in records_out current evaluating shared processor stream "
    "port ports lane lanes heads coming broker logic steps stack planned last_planned entered last_entered "
    "timers timers_room timers_first timers_count order pool listed next_idle aligning aside lots tail leaving "
    "last_leaving outcome job_due spent barrier pending most_pending",
    "service_s send_s busy_s blocked_s blocked_since_s free_s in_service_work_s start_s end_s time_s since_s job_s",
)
"""tail: whether other logics take at once what the first one sends. leaving: what a logic in Python sends when
it has returned. outcome: whether Python has the results of the work under way. job_due: whether Python asks for work of
job_s core-seconds. spent: where the time goes that records spend here. barrier: whether one waits for the end of the
work under way. pending: of a source, records that it has taken and that are not handled yet; most_pending: how many of
them there may be, 0 if any number."""
LOGIC = structure(
    "here kind came stream next beside port ports lots thins results dropped side parts sink window store calls kin "
    "passing dated computing",
    "selectivity service_s send_s work_s",
)
"""next: the last one of those in the subtask that get what leaves it; beside: that before it among these. port, ports:
the first of the streams on which records leave the subtask, and their number. lots: random numbers of the records that
it hands on, if copies of these meet. passing: the record that a logic in Python plans, or emits. work_s: CPU seconds
that it has planned."""
TIMER = structure("window", "at_s")
LANE = structure("here slot head tail task card next after pool total came coming", "")
INBOX = structure(
    "here side task pool credits capacity sent first_waiting last_waiting draining exclusive free first_gated "
    "last_gated",
    "beyond_s",
)
CHANNEL = structure(
    "here port inbox remote written sent taken used there waits next_gated first_unsent last_unsent unsent limit",
    "",
)
"""limit: most records that may be written and not taken yet."""
COUNTS = structure("here records", "took_s")
PORT = structure(
    "here slot task kind dealing sent subtask paths parallelism shares only first_held last_held held dropped "
    "passed_over stream keys aligned sends turn next_waiting batch armed buffers opened open_order pool used most full "
    "stopped draining kin dealt notes",
    "send_s flush_s phase_s",
)
BUFFER = structure("head tail count", "")
LINE = structure("head tail", "")
"""Both ends of a list within another structure, one behind the other."""
PATH = structure("here inbox counts card lane leg channel subtask", "latency_s bytes_each fetch_s")
LEG = structure("here card onward lane path records jitter", "latency_s bytes_each arrival_s")
JITTER = structure("here knot", "low high")
POOL = structure("here members count turn head tail first_idle last_idle onward undone", "")
"""onward: lane of the subtask to which a pool without members passes records on; 0 while it holds them. undone: whether
marks that come to it are dropped."""
CARD = structure("here records_in flying lane", "bytes_per_s bytes_out backlog_s last_s")
BROKER = structure(
    "here task taken times place count again again_place again_count logs log log_room logged notes again_notes", ""
)
CAME = structure("at_us key digest", "")
NOTES = structure("here came room count", "")
"""Notes on records that came to an operator over event time."""
ADDED = structure("at_us key digest", "born_s taken_s")
COMPUTING = structure("here logic added room count taken simple", "watermark execute_s owed_s")
"""Operator that adds records to panes. added: records that Python has still to add. taken: counts of the records taken
in. simple: whether each record belongs to one state. owed_s: CPU seconds of work that goes on beside its own."""
NOTE = structure("at_us digest", "")
"""Event time and digest of a record that may be read again; no digest if it has not been emitted yet."""
DATED = structure("here newest marked length offset slack disorder lasting due", "")
"""Event times of a source. newest: the latest so far. marked: what it has announced. length, offset: of panes at whose
ends it does so; 0: in time. lasting: whether a record that is read again has the same event time. due: whether a
watermark leaves behind the record in service."""
STREAM = structure("here uniforms uniforms_left services services_left generator next_bits", "scv")
"""generator, next_bits: addresses of a random generator, and of its function that draws 64 bits."""
SINK = structure(
    "here count counted processing e2e delay commits made held_results first_held last_held spent",
    "processing_sum_s e2e_sum_s delay_sum_s",
)
SPENT = structure("counts", "sum_s last_s")
"""Time that records spend in one way at an operator: a histogram (`twin.histograms`), the sum, and the last one."""
PROCESSOR = structure(
    "here slot shared ringing jobs heap sequence", "capacity slowdown speed work_s level clock since armed_s"
)
JOB = structure("order task", "end")
KEYS = structure("here groups steps owners second firsts counts scales within cuts", "")
ALIGNED = structure("here producer own_steps rows receivers steps", "share")
"""rows: where the receivers of each key group of the producer begin, and their cumulative shares."""
WINDOW = structure(
    "here slot task logic by_time matches keyed sides contents tables found found_room found_count stamp fires seen "
    "whole states closed lasts begun",
    "length slide boundary_s ended_s scan_s result_s amplification repeats slice ready_s last_s",
)
"""whole: of a part that is evaluated by itself, the window whose results these are. states: store of the keys that have
accumulators, with the last window, or slice, of each; 0 where records are held. closed: the last window that was
evaluated. lasts: sum of the last windows of all keys. begun: slices of keys that records in the window have begun.
slice: length of the slices that windows share, 0 for none. ready_s: when the results found last had all that they
waited for; last_s: when the record that completed their window was taken."""
CONTENT = structure("here rows room first count keys low_key", "scale here_share")
ROW = structure("key following", "position born_s taken_s")
TABLE = structure("here entries room", "")
ENTRY = structure("key stamp head tail", "")
RESULT = structure("key", "born_s taken_s ready_s wait_s")
"""wait_s: how long its oldest record waited in the window."""
PART = structure("part", "share")
STORE = structure(
    "here slot task entries heads room used free count first last watching keys drawn begun finished", "keep_s"
)
MEMO = structure("key chain after before", "at_s born_s taken_s came_s")
"""came_s: when the oldest record of a session came."""
CALLING = structure(
    "here slot turn task logic flying marks heap room gate stuck waits answered ordered answers sink unsure retries "
    "lost late failed late_lost failed_lost",
    "capacity selectivity hit_ratio hit_s latency_s last_s failure_share timeout_s delay_s multiplier most_delay_s "
    "retry_s",
)
"""unsure: whether a call may be lost. lost: how the call was that has been made last (`LATE`, `FAILED`), 0: answered.
late, failed: calls lost in these ways; late_lost, failed_lost: whether their records are dropped. retry_s: seconds of
the gate for another attempt."""
LATE, FAILED = 1, 2
GATE = structure("here", "each_s free_s")

item_at, task_at, lane_at, inbox_at, counts_at, port_at, buffer_at, path_at, leg_at, card_at, broker_at, stream_at = (
    map(accessor, (ITEM, TASK, LANE, INBOX, COUNTS, PORT, BUFFER, PATH, LEG, CARD, BROKER, STREAM))
)
keys_at, window_at, content_at, row_at, table_at, entry_at, result_at, part_at = map(
    accessor, (KEYS, WINDOW, CONTENT, ROW, TABLE, ENTRY, RESULT, PART)
)
line_at, channel_at, aligned_at = accessor(LINE), accessor(CHANNEL), accessor(ALIGNED)
state_at, sink_at, processor_at, job_at, jitter_at, pool_at = map(accessor, (STATE, SINK, PROCESSOR, JOB, JITTER, POOL))
logic_at, timer_at, store_at, memo_at, calling_at, gate_at = map(accessor, (LOGIC, TIMER, STORE, MEMO, CALLING, GATE))
note_at, dated_at, came_at, notes_at, added_at, computing_at, spent_at = map(
    accessor, (NOTE, DATED, CAME, NOTES, ADDED, COMPUTING, SPENT)
)

JOB_BYTES, BUFFER_BYTES, TIMER_BYTES, MEMO_BYTES, NOTE_BYTES, CAME_BYTES, ADDED_BYTES, SPENT_BYTES = (
    each.itemsize for each in (JOB, BUFFER, TIMER, MEMO, NOTE, CAME, ADDED, SPENT)
)
CONTENT_BYTES, ROW_BYTES, TABLE_BYTES, ENTRY_BYTES, RESULT_BYTES, PART_BYTES = (
    each.itemsize for each in (CONTENT, ROW, TABLE, ENTRY, RESULT, PART)
)


def _place(layout: np.dtype[Any], field: str) -> int:
    """Offset of a field in a structure, in bytes."""
    assert layout.fields is not None
    return int(layout.fields[field][1])


PLANNED, ENTERED, HELD, UNSENT = (
    _place(*each) for each in ((TASK, "planned"), (TASK, "entered"), (PORT, "first_held"), (CHANNEL, "first_unsent"))
)
POOLED, RESTING, WAITING, GATED, UNCOMMITTED = (
    _place(*each)
    for each in (
        (POOL, "head"),
        (POOL, "first_idle"),
        (INBOX, "first_waiting"),
        (INBOX, "first_gated"),
        (SINK, "first_held"),
    )
)
"""Offsets of lists in structures."""
SEQUENCE, NOW = _place(STATE, "sequence"), _place(STATE, "now")
LAST_SPENT = _place(SPENT, "last_s")
NEXT, NEXT_LANE, AFTER = _place(ITEM, "next"), _place(LANE, "next"), _place(LANE, "after")
NEXT_IDLE, NEXT_WAITING, NEXT_GATED = (
    _place(*each) for each in ((TASK, "next_idle"), (PORT, "next_waiting"), (CHANNEL, "next_gated"))
)
"""Offsets at which structures hold the address of the next one in a list."""

# kinds of entities in the calendar
TASKS, PROCESSORS, PORTS, LANES, WINDOWS, SESSIONS, ANSWERS, TURNS = range(8)
# calls to Python
(
    ITEMS,
    UNIFORMS,
    SERVICES,
    ARRIVALS,
    LOG,
    ROWS,
    ENTRIES,
    RESULTS,
    TIMERS,
    MEMOS,
    CALLS,
    PATHS,
    KNOT,
    LOOK,
    MARKED,
    HOLDS,
    FREE,
    WORKED,
    PLAN,
    EMIT,
    DUE,
    LEAVE,
    DEAL,
    TELL,
    DIGEST,
    NOTED,
    ADDING,
    LOST,
    PASS_ON,
    GIVEN_UP,
) = range(30)
# what Python asks for
(
    RECOUNT,
    SEND_MARK,
    BLOCK,
    UNBLOCK,
    FLUSH,
    OCCUPY,
    COMMIT,
    PUT_BACK,
    CANCEL_JOB,
    FINISH_KEPT,
    START_JOB,
    REFRESH,
    GO_ON,
    FLY,
    FOLLOW_UP,
) = range(15)
BARRIER, WATERMARK, MODIFICATION, RELEASE, IDLE, BATCH = range(1, 7)
"""Kinds of marks that travel with records."""
UNMARKED = -(2**62)
"""Event time before all others."""
# kinds of logics
PASS, READ, SELECT, COLLECT, ROUTE, WINDOW_OF, REMEMBER, SESSION, CALL, IN_PYTHON, READ_DATED, COMPUTE, EXIT = range(13)
# kinds of partitioning, and of ports
ONLY, IN_TURN, AT_RANDOM, COPIES, BY_KEY, ALONG, BY_TIME = range(7)
BLOCKING, SHEDDING, GATHERING = range(3)


# the arena -----------------------------------------------------------------------------------------------------------
# Memory of one run: arrays of structures that stay in place.


CHUNK, TOGETHER = 4096, 512
"""Number of items (at least), and of other structures, that are allocated together."""


class Arena:
    """Allocates arrays and structures, and keeps them alive: addresses are valid as long as the arena exists.

    bytes: of all of them, and of the arrays beside it that are counted here, too.
    """

    def __init__(self) -> None:
        self.kept: list[np.ndarray] = []
        self.bytes = 0
        self.items = 0
        self.blocks: dict[np.dtype[Any], tuple[np.ndarray, int]] = {}

    def make(self, layout: np.dtype[Any], count: int) -> np.ndarray:
        """Makes an array of `count` structures, all zero. [count]"""
        found = np.zeros(max(1, count), layout)
        self._keep(found)
        return found

    def add(self, layout: np.dtype[Any], **values: float) -> int:
        """Makes one structure with these values, the others being zero; returns its address, which is also in its field
        `here`.

        Structures come from blocks, as thousands of small arrays would cost more than their content.
        """
        block, used = self.blocks.get(layout, (None, TOGETHER))
        if block is None or used == TOGETHER:
            block, used = self.make(layout, TOGETHER), 0
        self.blocks[layout] = block, used + 1
        here = int(block.ctypes.data) + layout.itemsize * used
        fields = [values.get(name, 0) for name in layout.names or ()]
        fields[0] = here
        packing(layout).pack_into(block.data, layout.itemsize * used, *fields)
        return here

    def floats(self, values: Any) -> int:
        """Makes an array of floating-point numbers; returns its address."""
        return self._keep(np.array(values, np.float64))

    def wholes(self, values: Any) -> int:
        """Makes an array of whole numbers; returns its address."""
        return self._keep(np.array(values, np.int64))

    def _keep(self, found: np.ndarray) -> int:
        self.kept.append(found)
        self.bytes += found.nbytes
        know(found, partial(_called, found.dtype))
        return int(found.ctypes.data)

    @property
    def next_chunk(self) -> int:
        """Number of items that are made together next."""
        return max(CHUNK, self.items // 2)

    def chunk(self, following: int, count: int = CHUNK) -> int:
        """Makes new items, linked into a list that ends with the item `following`; returns the address of the first."""
        self.items += count
        items = self.make(ITEM, count)
        here = int(items.ctypes.data)
        items["next"][:-1] = here + ITEM.itemsize * np.arange(1, count)
        items["next"][-1] = following
        return here


def _called(layout: np.dtype[Any]) -> str:
    return f"structures {' '.join(layout.names)[:40]} ..." if layout.names else "numbers"


@cache
def packing(layout: np.dtype[Any]) -> Struct:
    """Packing of a structure's fields: whole numbers and floating-point numbers, of 8 bytes each."""
    assert layout.fields is not None
    return Struct("=" + "".join("d" if field.kind == "f" else "q" for field, *_ in layout.fields.values()))


def addresses(found: np.ndarray) -> list[int]:
    """Addresses of the structures of an array."""
    here = int(found.ctypes.data)
    return [here + found.itemsize * number for number in range(len(found))]
