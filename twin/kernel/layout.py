"""Layout of the kernel's state: structures of 8-byte fields that refer to each other by address.

A field means what the engine's attribute of the same name means, where there is one. `here` is a structure's own
address, `slot` its place in the calendar. Lists are linked through fields. Structures do not move while a run goes on:
items come from chunks, and arrays that must grow are replaced by Python, which then changes their one address.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from twin.kernel.native import accessor, structure

NONE = -1
"""Slot of a structure that is never due by itself; value of a field that a logic does not have."""
LEAST_ROOM = 256
"""Least room of arrays that grow."""

STATE = structure(
    "here sequence event_sequence free call_python work_on wake_up refill slots times orders tree kinds owners stopped "
    "lanes left subject until_order what",
    "now until asked",
)
ITEM = structure("next key path sender order step mark", "born_s taken_s left_s at_s sent_s latency_s lot")
TASK = structure(
    "here slot busy blocked halted queued tuples_in tuples_out current evaluating shared processor stream "
    "port ports lane lanes heads coming broker logic steps chain_end stack planned last_planned entered last_entered "
    "errands errands_room errands_first errands_count order pool listed next_idle aligning aside lots",
    "service_s send_s busy_s blocked_s blocked_since_s free_s in_service_work_s start_s end_s time_s since_s",
)
LOGIC = structure(
    "here kind came stream next thins results dropped side parts sink window store calls kin",
    "selectivity service_s send_s",
)
ERRAND = structure("window", "at_s")
LANE = structure("here slot head tail task card next after pool total came coming", "")
INBOX = structure(
    "here side task pool credits capacity sent first_waiting last_waiting draining exclusive free first_gated "
    "last_gated",
    "beyond_s",
)
CHANNEL = structure(
    "here port inbox remote written sent taken used there waits next_gated first_unsent last_unsent unsent", ""
)
COUNTS = structure("here tuples", "took_s")
PORT = structure(
    "here slot task kind dealing sent replica paths replicas shares only first_held last_held held dropped "
    "passed_over stream keys aligned sends turn next_waiting batch armed buffers opened open_order pool used most full "
    "stopped draining kin",
    "send_s flush_s phase_s",
)
BUFFER = structure("head tail count", "")
LINE = structure("head tail", "")
"""Both ends of a list within another structure, one behind the other."""
PATH = structure("here inbox counts card lane leg channel replica", "latency_s bytes_each fetch_s")
LEG = structure("here card onward lane path tuples jitter", "latency_s bytes_each arrival_s")
JITTER = structure("here knot", "low high")
POOL = structure("here members count turn head tail first_idle last_idle", "")
CARD = structure("here tuples_in flying lane", "bytes_per_s bytes_out backlog_s last_s")
BROKER = structure("here task taken times place count again again_place again_count logs log log_room logged", "")
STREAM = structure("here uniforms uniforms_left services services_left", "scv")
SINK = structure(
    "here count counted processing e2e commits made held_results first_held last_held", "processing_sum_s e2e_sum_s"
)
PROCESSOR = structure(
    "here slot shared ringing jobs heap sequence", "capacity slowdown speed work_s level clock since armed_s"
)
JOB = structure("order task", "end")
KEYS = structure("here groups steps owners second firsts counts scales within", "")
ALIGNED = structure("here producer own_steps rows receivers steps", "share")
"""rows: where the receivers of each key group of the producer begin, and their cumulative shares."""
WINDOW = structure(
    "here slot task logic by_time matches keyed sides contents tables found found_room found_count stamp fires seen",
    "length slide boundary_s scan_s result_s amplification repeats",
)
CONTENT = structure("here rows room first count keys low_key", "scale here_share")
ROW = structure("key following", "position born_s taken_s")
TABLE = structure("here entries room", "")
ENTRY = structure("key stamp head tail", "")
RESULT = structure("key", "born_s taken_s")
PART = structure("part", "share")
STORE = structure(
    "here slot task entries heads room used free count first last watching keys drawn begun finished", "keep_s"
)
MEMO = structure("key chain after before", "at_s born_s taken_s")
CALLING = structure(
    "here slot turn task logic flying heap room gate stuck waits answered ordered answers sink",
    "capacity selectivity hit_ratio hit_s latency_s last_s",
)
GATE = structure("here", "each_s free_s")

item_at, task_at, lane_at, inbox_at, counts_at, port_at, buffer_at, path_at, leg_at, card_at, broker_at, stream_at = (
    map(accessor, (ITEM, TASK, LANE, INBOX, COUNTS, PORT, BUFFER, PATH, LEG, CARD, BROKER, STREAM))
)
keys_at, window_at, content_at, row_at, table_at, entry_at, result_at, part_at = map(
    accessor, (KEYS, WINDOW, CONTENT, ROW, TABLE, ENTRY, RESULT, PART)
)
line_at, channel_at, aligned_at = accessor(LINE), accessor(CHANNEL), accessor(ALIGNED)
state_at, sink_at, processor_at, job_at, jitter_at, pool_at = map(accessor, (STATE, SINK, PROCESSOR, JOB, JITTER, POOL))
logic_at, errand_at, store_at, memo_at, calling_at, gate_at = map(accessor, (LOGIC, ERRAND, STORE, MEMO, CALLING, GATE))

JOB_BYTES, BUFFER_BYTES, ERRAND_BYTES, MEMO_BYTES = (each.itemsize for each in (JOB, BUFFER, ERRAND, MEMO))
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
POOLED, IDLE, WAITING, GATED, UNCOMMITTED = (
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
    ERRANDS,
    MEMOS,
    CALLS,
    PATHS,
    KNOT,
    LOOK,
    MARKED,
    HOLDS,
) = range(16)
# what Python asks for
RECOUNT, SEND_MARK, BLOCK, UNBLOCK, FLUSH, OCCUPY, COMMIT, PUT_BACK, CANCEL_JOB, FINISH_KEPT = range(10)
BARRIER = 1
"""Kind of marks that travel with records."""
# kinds of logics
PASS, READ, SELECT, COLLECT, ROUTE, WINDOW_OF, REMEMBER, SESSION, CALL = range(9)
# kinds of partitioning, and of ports
ONLY, IN_TURN, AT_RANDOM, COPIES, BY_KEY, ALONG = range(6)
BLOCKING, SHEDDING, GATHERING = range(3)
