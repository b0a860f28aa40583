import java.io.FileOutputStream;
import java.io.IOException;
import java.io.PrintStream;
import java.io.Serializable;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;

import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.connector.source.SourceReaderContext;
import org.apache.flink.api.connector.source.lib.NumberSequenceSource.NumberSequenceSplit;
import org.apache.flink.api.connector.source.util.ratelimit.RateLimiter;
import org.apache.flink.connector.datagen.source.DataGeneratorSource;
import org.apache.flink.connector.datagen.source.GeneratorFunction;

/**
 * Records as a broker has them: number n is due when the rate, which may rise by steps, says so, and what is overdue comes at once. Those of a tick come together,
 * as a source that waits for each record by itself uses several times the CPU of its records (a timer and a wake-up each), which is
 * gone where nothing waits any more: at the load that a job just bears, which light loads are to foretell.
 *
 * Several subtasks have the numbers in turn. After a restart they go on where records do.
 */
abstract class Paced<T> implements GeneratorFunction<Long, T> {
    private static final long TICK_MS = 5;
    private static final int BITS = 40;
    protected final double startMs;
    private final Pace pace;
    private final int subtasks;
    private String file = "";
    private transient long next, saidMs;
    private transient PrintStream taken;

    Paced(double startMs, Pace pace, int subtasks) {
        this.startMs = startMs;
        this.pace = pace;
        this.subtasks = subtasks;
    }

    /** Rates a second, each from a time (s) on, which begin at 0: as text, `40000@0,160000@80`. */
    record Pace(double[] perSecond, double[] fromS) implements Serializable {
        static Pace of(String text) {
            double[][] steps = Stream.of(text.split(",")).map(each -> Stream.of(each.split("@")).mapToDouble(Double::parseDouble).toArray())
                    .toArray(double[][]::new);
            return new Pace(Stream.of(steps).mapToDouble(each -> each[0]).toArray(), Stream.of(steps).mapToDouble(each -> each[1]).toArray());
        }

        /** When a record is due (s), by its number. */
        double dueS(double number) {
            double before = 0;
            for (int step = 0; ; step++) {
                double lasts = step + 1 < fromS.length ? perSecond[step] * (fromS[step + 1] - fromS[step]) : Double.POSITIVE_INFINITY;
                if (number < before + lasts) return fromS[step] + (number - before) / perSecond[step];
                before += lasts;
            }
        }

        /** Rate a second at a time (s). */
        double at(double s) {
            int step = fromS.length - 1;
            while (step > 0 && s < fromS[step]) step--;
            return perSecond[step];
        }
    }

    /** Has each subtask append lines to a file with its number, at most a hundred a second: now (ms), the number of a record that it takes. */
    Paced<T> telling(String file) {
        this.file = file;
        return this;
    }

    @Override
    public final void open(SourceReaderContext context) throws IOException {
        if (!file.isEmpty()) taken = new PrintStream(new FileOutputStream(file + "." + context.getIndexOfSubtask(), true), true);
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
        if (taken != null) tell(number);
        return record(number, (long) dueMs(number));
    }

    private void tell(long number) {
        long now = System.currentTimeMillis();
        if (now - saidMs < 2 * TICK_MS) return;
        taken.println(now + "," + number);
        saidMs = now;
    }

    private double dueMs(long number) {
        return startMs + 1000 * pace.dueS(number);
    }

    /** Rate a second at a time (ms since 1970). */
    final double perSecond(long ms) {
        return pace.at((ms - startMs) / 1000);
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
