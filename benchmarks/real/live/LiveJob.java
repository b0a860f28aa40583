import java.io.FileOutputStream;
import java.io.IOException;
import java.io.PrintStream;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Collections;
import java.util.HashMap;
import java.util.Map;
import java.util.SplittableRandom;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;

import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.functions.FilterFunction;
import org.apache.flink.api.common.functions.JoinFunction;
import org.apache.flink.api.common.functions.MapFunction;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.functions.ReduceFunction;
import org.apache.flink.api.common.functions.RichMapFunction;
import org.apache.flink.api.common.state.ValueState;
import org.apache.flink.api.common.state.ValueStateDescriptor;
import org.apache.flink.api.common.typeinfo.TypeHint;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.connector.sink2.Sink;
import org.apache.flink.api.connector.sink2.SinkWriter;
import org.apache.flink.api.connector.sink2.WriterInitContext;
import org.apache.flink.api.java.functions.KeySelector;
import org.apache.flink.api.java.tuple.Tuple3;
import org.apache.flink.streaming.api.datastream.AsyncDataStream;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.datastream.SingleOutputStreamOperator;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.async.AsyncFunction;
import org.apache.flink.streaming.api.functions.async.ResultFuture;
import org.apache.flink.streaming.api.windowing.assigners.ProcessingTimeSessionWindows;
import org.apache.flink.streaming.api.windowing.assigners.TumblingProcessingTimeWindows;

/**
 * Small jobs of known shape and unknown cost. A record is (number, when it was due, when the source took it), in ms; sources are
 * brokers (`Paced`): what they cannot deliver in time waits. The end of each job writes lines: time, records, sums of their ages, each
 * age.
 *
 * Options, as --name value: shape, rate (records/s), share_SOURCE (of that, which the source sends), work_us (of a call: until its
 * answer), wait (true: sleeps; false: computes), replicas (of each slow operator, such as 2,3), stats (file), chaining, start_ms (when
 * the first record is due), and fail_ms (since then; once, marked by the file stats.failed).
 */
public final class LiveJob {
    static final int KEYS = 64;
    static final int VISITORS = 512;
    static final int CALLS = 20;
    static final TypeInformation<Tuple3<Long, Long, Long>> RECORD = TypeInformation.of(new TypeHint<>() {});

    public static void main(String[] arguments) throws Exception {
        Map<String, String> given = new HashMap<>();
        for (int at = 0; at + 1 < arguments.length; at += 2) given.put(arguments[at].substring(2), arguments[at + 1]);
        StreamExecutionEnvironment env = StreamExecutionEnvironment.getExecutionEnvironment();
        env.setParallelism(1);
        env.getConfig().setLatencyTrackingInterval(100);
        if (!Boolean.parseBoolean(given.get("chaining"))) env.disableOperatorChaining();
        new LiveJob(env, given).build();
        env.execute(given.get("shape"));
    }

    private final StreamExecutionEnvironment env;
    private final Map<String, String> given;
    private final long startMs;

    LiveJob(StreamExecutionEnvironment env, Map<String, String> given) {
        this.env = env;
        this.given = given;
        this.startMs = Long.parseLong(given.get("start_ms"));
    }

    void build() {
        String[] many = given.get("replicas").split(",");
        int replicas = Integer.parseInt(many[0]);
        switch (given.get("shape")) {
            case "line" -> end(window(work(thinned(source("source")), "work", 1.0, replicas)));
            case "fork" -> {
                DataStream<Tuple3<Long, Long, Long>> source = source("source");
                end(work(source, "slow", 1.0, replicas).union(work(thinned(source), "quick", 0.5, 1)));
            }
            case "join" -> end(work(joined(source("left"), source("right")), "work", 1.0, replicas));
            case "slow left" -> end(joined(work(source("left"), "work", 1.0, replicas), source("right")));
            case "chain" -> end(work(thinned(source("source")), "work", 1.0, replicas));
            case "keyed" -> {
                var first = counted(source("source"), record -> record.f0 % KEYS, "first", 0.5, replicas);
                end(counted(first, record -> record.f0 / 3 % KEYS, "second", 2.0, Integer.parseInt(many[1])));
            }
            case "session" -> end(sessions(work(source("source"), "work", 1.0, replicas)));
            case "async" -> end(called(source("source"), replicas));
            default -> throw new IllegalArgumentException(given.get("shape"));
        }
    }

    DataStream<Tuple3<Long, Long, Long>> source(String name) {
        double rate = Double.parseDouble(given.get("rate")) * Double.parseDouble(given.getOrDefault("share_" + name, "1"));
        var source = new Numbers(startMs, Paced.Pace.of(rate + "@0"), 1).source(RECORD);
        return env.fromSource(source, WatermarkStrategy.noWatermarks(), name).uid(name);
    }

    SingleOutputStreamOperator<Tuple3<Long, Long, Long>> thinned(DataStream<Tuple3<Long, Long, Long>> stream) {
        FilterFunction<Tuple3<Long, Long, Long>> most = record -> record.f0 % 10 != 0;
        return stream.rebalance().filter(most).name("filter");
    }

    SingleOutputStreamOperator<Tuple3<Long, Long, Long>> work(
            DataStream<Tuple3<Long, Long, Long>> stream, String name, double times, int replicas) {
        boolean chained = Boolean.parseBoolean(given.get("chaining"));
        return (chained ? stream : stream.rebalance()).map(slow(times)).returns(RECORD).name(name).setParallelism(replicas);
    }

    Work slow(double times) {
        long nanos = (long) (times * 1000 * Long.parseLong(given.get("work_us")));
        long failMs = given.containsKey("fail_ms") ? startMs + Long.parseLong(given.get("fail_ms")) : Long.MAX_VALUE;
        return new Work(nanos, Boolean.parseBoolean(given.get("wait")), failMs, given.get("stats") + ".failed");
    }

    SingleOutputStreamOperator<Tuple3<Long, Long, Long>> counted(
            DataStream<Tuple3<Long, Long, Long>> stream, KeySelector<Tuple3<Long, Long, Long>, Long> key, String name, double times,
            int replicas) {
        var keyed = stream.keyBy(key, TypeInformation.of(Long.class));
        return keyed.map(new Counted(slow(times))).returns(RECORD).name(name).uid(name).setParallelism(replicas);
    }

    /** Records come to visitors at random, so sessions end by chance. */
    SingleOutputStreamOperator<Tuple3<Long, Long, Long>> sessions(DataStream<Tuple3<Long, Long, Long>> stream) {
        KeySelector<Tuple3<Long, Long, Long>, Long> visitor = 
                record -> (long) new SplittableRandom(record.f0).nextInt(VISITORS);
        ReduceFunction<Tuple3<Long, Long, Long>> older = LiveJob::older;
        var windows = ProcessingTimeSessionWindows.withGap(Duration.ofSeconds(1));
        return stream.keyBy(visitor, TypeInformation.of(Long.class)).window(windows).reduce(older).name("visits");
    }

    /** Without a name: it is by its own that Flink's plan tells of a call. */
    SingleOutputStreamOperator<Tuple3<Long, Long, Long>> called(DataStream<Tuple3<Long, Long, Long>> stream, int replicas) {
        var call = new Call(Long.parseLong(given.get("work_us")));
        return AsyncDataStream.unorderedWait(stream.rebalance(), call, 60, TimeUnit.SECONDS, CALLS)
                .returns(RECORD).setParallelism(replicas);
    }

    static KeySelector<Tuple3<Long, Long, Long>, Long> key() {
        return record -> record.f0 % KEYS;
    }

    static Tuple3<Long, Long, Long> older(Tuple3<Long, Long, Long> a, Tuple3<Long, Long, Long> b) {
        return Tuple3.of(a.f0, Math.min(a.f1, b.f1), Math.min(a.f2, b.f2));
    }

    SingleOutputStreamOperator<Tuple3<Long, Long, Long>> window(DataStream<Tuple3<Long, Long, Long>> stream) {
        ReduceFunction<Tuple3<Long, Long, Long>> older = LiveJob::older;
        var windows = TumblingProcessingTimeWindows.of(Duration.ofSeconds(1));
        return stream.keyBy(key(), TypeInformation.of(Long.class)).window(windows).reduce(older).name("window");
    }

    DataStream<Tuple3<Long, Long, Long>> joined(
            DataStream<Tuple3<Long, Long, Long>> left, DataStream<Tuple3<Long, Long, Long>> right) {
        var windows = TumblingProcessingTimeWindows.of(Duration.ofSeconds(1));
        JoinFunction<Tuple3<Long, Long, Long>, Tuple3<Long, Long, Long>, Tuple3<Long, Long, Long>> pair = LiveJob::older;
        var type = TypeInformation.of(Long.class);
        return left.join(right).where(key(), type).equalTo(key(), type).window(windows).apply(pair, RECORD);
    }

    void end(DataStream<Tuple3<Long, Long, Long>> stream) {
        (Boolean.parseBoolean(given.get("chaining")) ? stream : stream.rebalance())
                .sinkTo(new Ages(given.get("stats"))).name("sink");
    }

    /** Records with their numbers, when they were due, and when they are taken. */
    static final class Numbers extends Paced<Tuple3<Long, Long, Long>> {
        Numbers(double startMs, Pace pace, int subtasks) {
            super(startMs, pace, subtasks);
        }

        @Override
        Tuple3<Long, Long, Long> record(long number, long dueMs) {
            return Tuple3.of(number, dueMs, System.currentTimeMillis());
        }
    }

    /** Sleeps or computes for so long a record; fails once, if told to. */
    static final class Work implements MapFunction<Tuple3<Long, Long, Long>, Tuple3<Long, Long, Long>> {
        private static final ThreadMXBean CLOCK = ManagementFactory.getThreadMXBean();
        private final long nanos;
        private final boolean waits;
        private final long failMs;
        private final String marker;

        Work(long nanos, boolean waits, long failMs, String marker) {
            this.nanos = nanos;
            this.waits = waits;
            this.failMs = failMs;
            this.marker = marker;
        }

        @Override
        public Tuple3<Long, Long, Long> map(Tuple3<Long, Long, Long> record) throws Exception {
            if (System.currentTimeMillis() > failMs && Path.of(marker).toFile().createNewFile()) {
                throw new IllegalStateException("fails as told");
            }
            if (waits) TimeUnit.NANOSECONDS.sleep(nanos);
            else for (long end = CLOCK.getCurrentThreadCpuTime() + nanos; CLOCK.getCurrentThreadCpuTime() < end; ) {}
            return record;
        }
    }

    /** The same, and counts the records of each key. */
    static final class Counted extends RichMapFunction<Tuple3<Long, Long, Long>, Tuple3<Long, Long, Long>> {
        private final Work work;
        private transient ValueState<Long> count;

        Counted(Work work) {
            this.work = work;
        }

        @Override
        public void open(OpenContext context) {
            count = getRuntimeContext().getState(new ValueStateDescriptor<>("count", Long.class));
        }

        @Override
        public Tuple3<Long, Long, Long> map(Tuple3<Long, Long, Long> record) throws Exception {
            Long before = count.value();
            count.update(before == null ? 1 : before + 1);
            return work.map(record);
        }
    }

    /** Is answered after so long, and takes no thread meanwhile. */
    static final class Call implements AsyncFunction<Tuple3<Long, Long, Long>, Tuple3<Long, Long, Long>> {
        private final long micros;

        Call(long micros) {
            this.micros = micros;
        }

        @Override
        public void asyncInvoke(Tuple3<Long, Long, Long> record, ResultFuture<Tuple3<Long, Long, Long>> answer) {
            var later = CompletableFuture.delayedExecutor(micros, TimeUnit.MICROSECONDS, Runnable::run);
            CompletableFuture.runAsync(() -> answer.complete(Collections.singleton(record)), later);
        }
    }

    /**
     * The end: a line four times a second: now, records in this attempt, sums of their ages since due, and since taken, and each age
     * since taken of those since the last line; in ms.
     */
    static final class Ages implements Sink<Tuple3<Long, Long, Long>> {
        private final String file;

        Ages(String file) {
            this.file = file;
        }

        @Override
        public SinkWriter<Tuple3<Long, Long, Long>> createWriter(WriterInitContext context) throws IOException {
            return new Writer(new PrintStream(new FileOutputStream(file, true), true));
        }
    }

    static final class Writer implements SinkWriter<Tuple3<Long, Long, Long>> {
        private final PrintStream out;
        private final StringBuilder ages = new StringBuilder();
        private long records, dueMs, takenMs, saidMs;

        Writer(PrintStream out) {
            this.out = out;
        }

        @Override
        public void write(Tuple3<Long, Long, Long> record, Context context) {
            long now = System.currentTimeMillis();
            if (now - saidMs >= 250) {
                out.println(now + "," + records + "," + dueMs + "," + takenMs + "," + ages);
                ages.setLength(0);
                saidMs = now;
            }
            records++;
            dueMs += now - record.f1;
            takenMs += now - record.f2;
            ages.append(' ').append(now - record.f2);
        }

        @Override
        public void flush(boolean endOfInput) {}

        @Override
        public void close() {
            out.close();
        }
    }
}
