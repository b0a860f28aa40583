"""The kernel's state: structures of 8-byte fields that refer to each other by address.

A field means what the engine's attribute of the same name means, where there is one. `here` is a structure's own
address, `slot` its place in the calendar. Lists are linked through fields. Nothing moves while a run goes on: items
come from chunks, and what must grow is grown by Python, which then changes the one address of it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from twin.kernel.native import accessor, structure

NONE = -1
"""The slot of what is never due by itself; what a logic does not have."""
LEAST_ROOM = 256
"""Of what grows."""

STATE = structure(
    "here sequence event_sequence free call_python work_on wake_up refill slots times orders tree kinds owners stopped "
    "lanes",
    "now until",
)
ITEM = structure("next key path sender order step", "born_s taken_s left_s at_s sent_s latency_s")
TASK = structure(
    "here slot busy blocked halted queued tuples_in tuples_out current evaluating shared processor stream "
    "port ports lane lanes heads coming broker logic steps chain_end stack planned last_planned entered last_entered "
    "errands errands_room errands_first errands_count order pool listed next_idle",
    "service_s send_s busy_s blocked_s blocked_since_s free_s in_service_work_s start_s end_s time_s since_s",
)
LOGIC = structure(
    "here kind came stream next thins results dropped side parts sink window store calls",
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
    "stopped draining",
    "send_s flush_s phase_s",
)
BUFFER = structure("head tail count", "")
LINE = structure("head tail", "")
"""The two ends of a list within another structure, one behind the other."""
PATH = structure("here inbox counts card lane leg channel replica", "latency_s bytes_each fetch_s")
LEG = structure("here card onward lane path tuples jitter", "latency_s bytes_each arrival_s")
JITTER = structure("here knot", "low high")
POOL = structure("here members count turn head tail first_idle last_idle", "")
CARD = structure("here tuples_in flying lane", "bytes_per_s bytes_out backlog_s last_s")
BROKER = structure("here task taken times place count again again_place again_count logs log log_room logged", "")
STREAM = structure("here uniforms uniforms_left services services_left", "scv")
SINK = structure("here count counted processing e2e", "processing_sum_s e2e_sum_s")
PROCESSOR = structure(
    "here slot shared ringing jobs heap sequence", "capacity slowdown speed work_s level clock since armed_s"
)
JOB = structure("order task", "end")
KEYS = structure("here groups steps owners second firsts counts scales within", "")
ALIGNED = structure("here producer own_steps rows receivers steps", "share")
"""rows: where the receivers of each key group of the producer begin, and their cumulative parts."""
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
    """Where a structure has a field, in bytes from its beginning."""
    assert layout.fields is not None
    return int(layout.fields[field][1])


PLANNED, ENTERED, HELD, UNSENT = (
    _place(*each) for each in ((TASK, "planned"), (TASK, "entered"), (PORT, "first_held"), (CHANNEL, "first_unsent"))
)
POOLED, IDLE, WAITING, GATED = (
    _place(*each) for each in ((POOL, "head"), (POOL, "first_idle"), (INBOX, "first_waiting"), (INBOX, "first_gated"))
)
"""Where lists begin in structures."""
NEXT, NEXT_LANE = _place(ITEM, "next"), _place(LANE, "next")
NEXT_IDLE, NEXT_WAITING, NEXT_GATED = (
    _place(*each) for each in ((TASK, "next_idle"), (PORT, "next_waiting"), (CHANNEL, "next_gated"))
)
"""Where structures have those that follow them in lists."""

# kinds of entities in the calendar
TASKS, PROCESSORS, PORTS, LANES, WINDOWS, SESSIONS, ANSWERS, TURNS = range(8)
# what Python is called for
ITEMS, UNIFORMS, SERVICES, ARRIVALS, LOG, ROWS, ENTRIES, RESULTS, ERRANDS, MEMOS, CALLS, PATHS, KNOT = range(13)
# what becomes of an item
PASS, READ, SELECT, COLLECT, ROUTE, WINDOW_OF, REMEMBER, SESSION, CALL = range(9)
# how ports deal, and what they do with what finds no room
ONLY, IN_TURN, AT_RANDOM, COPIES, BY_KEY, ALONG = range(6)
BLOCKING, SHEDDING, GATHERING = range(3)
