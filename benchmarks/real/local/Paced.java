import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.TimeUnit;

import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.connector.source.lib.NumberSequenceSource.NumberSequenceSplit;
import org.apache.flink.api.connector.source.util.ratelimit.RateLimiter;
import org.apache.flink.connector.datagen.source.DataGeneratorSource;
import org.apache.flink.connector.datagen.source.GeneratorFunction;

/**
 * Records as a broker has them: number n is due at start + n / rate, and what is overdue comes at once. Those of a tick come together,
 * as a source that waits for each record by itself uses several times the CPU of its records (a timer and a wake-up each), which is
 * gone where nothing waits any more: at the load that a job just bears, which light loads are to foretell.
 *
 * Several subtasks have the numbers in turn. After a restart they go on where records do.
 */
abstract class Paced<T> implements GeneratorFunction<Long, T> {
    private static final long TICK_MS = 5;
    private static final int BITS = 40;
    protected final double startMs;
    protected final double perSecond;
    private final int subtasks;
    private transient long next;

    Paced(double startMs, double perSecond, int subtasks) {
        this.startMs = startMs;
        this.perSecond = perSecond;
        this.subtasks = subtasks;
    }

    /** Record of that number. dueMs: when it is due, since 1970. */
    abstract T record(long number, long dueMs);

    DataGeneratorSource<T> source(TypeInformation<T> type) {
        return new DataGeneratorSource<>(this, (long) subtasks << BITS, ignored -> limiter(), type);
    }

    /** Flink gives each subtask 2^40 numbers in a row. */
    @Override
    public final T map(Long given) {
        long number = (given & (1L << BITS) - 1) * subtasks + (given >> BITS);
        next = number + subtasks;
        return record(number, (long) dueMs(number));
    }

    private double dueMs(long number) {
        return startMs + 1000 * number / perSecond;
    }

    private RateLimiter<NumberSequenceSplit> limiter() {
        return records -> acquired();
    }

    private CompletionStage<Void> acquired() {
        long waitMs = (long) Math.ceil(dueMs(next) / TICK_MS) * TICK_MS - System.currentTimeMillis();
        if (waitMs <= 0) return CompletableFuture.completedFuture(null);
        return CompletableFuture.runAsync(() -> {}, CompletableFuture.delayedExecutor(waitMs, TimeUnit.MILLISECONDS, Runnable::run));
    }
}
