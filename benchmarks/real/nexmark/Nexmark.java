import java.io.FileOutputStream;
import java.io.IOException;
import java.io.PrintStream;
import java.util.HashMap;
import java.util.Map;
import java.util.Set;
import java.util.SplittableRandom;

import org.apache.flink.api.connector.sink2.Sink;
import org.apache.flink.api.connector.sink2.SinkWriter;
import org.apache.flink.api.connector.sink2.WriterInitContext;
import org.apache.flink.configuration.ConfigOption;
import org.apache.flink.configuration.ConfigOptions;
import org.apache.flink.configuration.ReadableConfig;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.table.api.StatementSet;
import org.apache.flink.table.api.bridge.java.StreamTableEnvironment;
import org.apache.flink.table.connector.ChangelogMode;
import org.apache.flink.table.connector.sink.DynamicTableSink;
import org.apache.flink.table.connector.sink.SinkV2Provider;
import org.apache.flink.table.connector.source.DynamicTableSource;
import org.apache.flink.table.connector.source.ScanTableSource;
import org.apache.flink.table.connector.source.SourceProvider;
import org.apache.flink.table.data.GenericRowData;
import org.apache.flink.table.data.RowData;
import org.apache.flink.table.data.StringData;
import org.apache.flink.table.data.TimestampData;
import org.apache.flink.table.factories.DynamicTableSinkFactory;
import org.apache.flink.table.factories.DynamicTableSourceFactory;
import org.apache.flink.table.factories.FactoryUtil;
import org.apache.flink.table.runtime.typeutils.InternalTypeInfo;
import org.apache.flink.table.types.logical.RowType;
import org.apache.flink.types.RowKind;

/**
 * Runs statements of SQL over two connectors: `nexmark`, the events of an online auction, and `ages`, which writes how old results are.
 *
 * Options, as --name value: name (of the job), parallelism, and sql (statements that end with a semicolon and a new line).
 */
public final class Nexmark {
    /** Not a divisor of the 100 ms after which buffers leave, or each marker would wait for as long as the first. */
    private static final long MARKERS_MS = 97;

    public static void main(String[] arguments) {
        Map<String, String> given = new HashMap<>();
        for (int at = 0; at + 1 < arguments.length; at += 2) given.put(arguments[at].substring(2), arguments[at + 1]);
        StreamExecutionEnvironment env = StreamExecutionEnvironment.getExecutionEnvironment();
        env.setParallelism(Integer.parseInt(given.get("parallelism")));
        env.getConfig().setLatencyTrackingInterval(MARKERS_MS);
        StreamTableEnvironment tables = StreamTableEnvironment.create(env);
        tables.getConfig().set("pipeline.name", given.get("name"));
        StatementSet inserts = tables.createStatementSet();
        for (String each : given.get("sql").split(";\\s*\n")) {
            String statement = each.strip();
            if (statement.startsWith("INSERT")) inserts.addInsertSql(statement);
            else if (!statement.isEmpty()) tables.executeSql(statement);
        }
        inserts.execute();
    }

    /**
     * Event number n of the generator of Nexmark (Tucker et al., "NEXMark: a benchmark for queries over data streams", 2002, as Apache Beam
     * and the Nexmark of Flink have it): of 50 events in a row one is a new person, three are auctions and 46 are bids. Three of four sellers
     * and bidders and one of two auctions are hot ones. People, auctions and bids have some 200, 500 and 100 bytes. All follows from n.
     */
    static final class Events extends Paced<RowData> {
        private static final int ROUND = 50, AUCTIONS = 3, FIRST_ID = 1000, FIRST_CATEGORY = 10, CATEGORIES = 5;
        private static final int HOT = 100, ACTIVE_PEOPLE = 1000, OPEN_AUCTIONS = 100, LEAD = 10, COLD_CHANNELS = 10_000;
        private static final String[] CHANNELS = {"Google", "Facebook", "Baidu", "Apple"};
        private static final String[] STATES = {"AZ", "CA", "ID", "OR", "WA", "WY"};
        private static final String[] CITIES = {
            "Phoenix", "Los Angeles", "San Francisco", "Boise", "Portland", "Bend", "Redmond", "Seattle", "Kent", "Cheyenne"
        };

        Events(double startMs, Pace pace, int subtasks) {
            super(startMs, pace, subtasks);
        }

        @Override
        RowData record(long number, long dueMs) {
            SplittableRandom random = new SplittableRandom(number * 0x9E3779B97F4A7C15L);
            TimestampData due = TimestampData.fromEpochMillis(dueMs);
            long person = number / ROUND, place = number % ROUND;
            long auction = person * AUCTIONS + Math.min(place, AUCTIONS) - 1;
            int type = place == 0 ? 0 : place <= AUCTIONS ? 1 : 2;
            GenericRowData row = new GenericRowData(4);
            row.setField(0, type);
            row.setField(1 + type, type == 0 ? person(random, person, due) : type == 1 ? auction(random, auction, person, due) : bid(random, auction, person, due));
            return row;
        }

        private static RowData person(SplittableRandom random, long person, TimestampData due) {
            return GenericRowData.of(
                    FIRST_ID + person, text(random, 12), text(random, 16), text(random, 19), one(random, CITIES), one(random, STATES), due, text(random, 110));
        }

        private RowData auction(SplittableRandom random, long auction, long person, TimestampData due) {
            long seller = random.nextInt(4) > 0 ? person / HOT * HOT : anyone(random, person);
            long openMs = (long) (1000.0 * OPEN_AUCTIONS * ROUND / AUCTIONS / perSecond(due.getMillisecond()));
            TimestampData expires = TimestampData.fromEpochMillis(due.getMillisecond() + 1 + random.nextLong(Math.max(2 * openMs, 1)));
            long initial = price(random);
            return GenericRowData.of(
                    FIRST_ID + auction, text(random, 20), text(random, 100), initial, initial + price(random), due, expires, FIRST_ID + seller,
                    (long) FIRST_CATEGORY + random.nextInt(CATEGORIES), text(random, 300));
        }

        private static RowData bid(SplittableRandom random, long lastAuction, long lastPerson, TimestampData due) {
            long first = Math.max(0, lastAuction - OPEN_AUCTIONS);
            long auction = random.nextInt(2) > 0 ? lastAuction / HOT * HOT : first + random.nextLong(lastAuction - first + 1 + LEAD);
            long bidder = random.nextInt(4) > 0 ? lastPerson / HOT * HOT + 1 : anyone(random, lastPerson);
            int cold = random.nextInt(COLD_CHANNELS);
            StringData channel = random.nextInt(2) > 0 ? one(random, CHANNELS) : StringData.fromString("channel-" + cold);
            StringData url = StringData.fromString("https://www.nexmark.com/" + cold % 10 + "/" + cold % 100 + "/" + cold + "/item.htm?query=1");
            return GenericRowData.of(FIRST_ID + auction, FIRST_ID + bidder, price(random), channel, url, due, text(random, 20));
        }

        /** One of the last people, or of the next. */
        private static long anyone(SplittableRandom random, long lastPerson) {
            long active = Math.min(lastPerson + 1, ACTIVE_PEOPLE);
            return lastPerson + 1 - active + random.nextLong(active + LEAD);
        }

        private static long price(SplittableRandom random) {
            return Math.round(Math.pow(10, random.nextDouble() * 6) * 100);
        }

        private static StringData one(SplittableRandom random, String[] words) {
            return StringData.fromString(words[random.nextInt(words.length)]);
        }

        private static StringData text(SplittableRandom random, int length) {
            byte[] bytes = new byte[length];
            for (int at = 0; at < length; at++) bytes[at] = (byte) ('a' + random.nextInt(26));
            return StringData.fromBytes(bytes);
        }
    }

    static final ConfigOption<String> RATE = ConfigOptions.key("rate").stringType().noDefaultValue();
    static final ConfigOption<Long> START = ConfigOptions.key("start_ms").longType().noDefaultValue();
    static final ConfigOption<Integer> SUBTASKS = ConfigOptions.key("subtasks").intType().noDefaultValue();
    static final ConfigOption<String> TAKEN = ConfigOptions.key("taken").stringType().defaultValue("");
    static final ConfigOption<String> FILE = ConfigOptions.key("file").stringType().noDefaultValue();
    static final ConfigOption<Integer> COLUMN = ConfigOptions.key("column").intType().defaultValue(-1);

    /** Connector of events: rate (a second, as `40000@0,160000@80`), start_ms (when the first is due, since 1970), subtasks, taken (a file that says when; empty: none). */
    public static final class SourceFactory implements DynamicTableSourceFactory {
        @Override
        public String factoryIdentifier() {
            return "nexmark";
        }

        @Override
        public Set<ConfigOption<?>> requiredOptions() {
            return Set.of(RATE, START, SUBTASKS);
        }

        @Override
        public Set<ConfigOption<?>> optionalOptions() {
            return Set.of(TAKEN);
        }

        @Override
        public DynamicTableSource createDynamicTableSource(Context context) {
            ReadableConfig options = FactoryUtil.createTableFactoryHelper(this, context).getOptions();
            RowType type = (RowType) context.getPhysicalRowDataType().getLogicalType();
            return new Scan(type, options.get(START), options.get(RATE), options.get(SUBTASKS), options.get(TAKEN));
        }
    }

    record Scan(RowType type, long startMs, String rate, int subtasks, String taken) implements ScanTableSource {
        @Override
        public ChangelogMode getChangelogMode() {
            return ChangelogMode.insertOnly();
        }

        @Override
        public DynamicTableSource copy() {
            return this;
        }

        @Override
        public String asSummaryString() {
            return "nexmark";
        }

        @Override
        public ScanRuntimeProvider getScanRuntimeProvider(ScanContext context) {
            return SourceProvider.of(new Events(startMs, Paced.Pace.of(rate), subtasks).telling(taken).source(InternalTypeInfo.of(type)));
        }
    }

    /** Connector of results: file (each subtask appends its number), column (the time from which ages count; -1: none is written). */
    public static final class SinkFactory implements DynamicTableSinkFactory {
        @Override
        public String factoryIdentifier() {
            return "ages";
        }

        @Override
        public Set<ConfigOption<?>> requiredOptions() {
            return Set.of(FILE);
        }

        @Override
        public Set<ConfigOption<?>> optionalOptions() {
            return Set.of(COLUMN);
        }

        @Override
        public DynamicTableSink createDynamicTableSink(Context context) {
            ReadableConfig options = FactoryUtil.createTableFactoryHelper(this, context).getOptions();
            return new Results(options.get(FILE), options.get(COLUMN));
        }
    }

    record Results(String file, int column) implements DynamicTableSink {
        @Override
        public ChangelogMode getChangelogMode(ChangelogMode asked) {
            return asked;
        }

        @Override
        public DynamicTableSink copy() {
            return this;
        }

        @Override
        public String asSummaryString() {
            return "ages";
        }

        @Override
        public SinkRuntimeProvider getSinkRuntimeProvider(Context context) {
            return SinkV2Provider.of(new Ages(file, column));
        }
    }

    record Ages(String file, int column) implements Sink<RowData> {
        @Override
        public SinkWriter<RowData> createWriter(WriterInitContext context) throws IOException {
            String own = file + "." + context.getTaskInfo().getIndexOfThisSubtask();
            return new Writer(new PrintStream(new FileOutputStream(own, true), true), column);
        }
    }

    /** Writes a line four times a second: now (ms), rows so far, and the ages (ms) of the first rows since the last line; none of rows that
     * are taken back. */
    static final class Writer implements SinkWriter<RowData> {
        private static final int EVERY_MS = 250, MOST = 400;
        private final PrintStream out;
        private final int column;
        private final StringBuilder ages = new StringBuilder();
        private long rows, saidMs;
        private int kept;

        Writer(PrintStream out, int column) {
            this.out = out;
            this.column = column;
        }

        @Override
        public void write(RowData row, Context context) {
            rows++;
            long now = System.currentTimeMillis();
            if (now - saidMs >= EVERY_MS) {
                out.println(now + "," + rows + "," + ages);
                ages.setLength(0);
                kept = 0;
                saidMs = now;
            }
            if (column < 0 || kept == MOST || row.getRowKind() == RowKind.UPDATE_BEFORE || row.getRowKind() == RowKind.DELETE) return;
            ages.append(' ').append(now - row.getTimestamp(column, 3).getMillisecond());
            kept++;
        }

        @Override
        public void flush(boolean endOfInput) {}

        @Override
        public void close() {
            out.println(System.currentTimeMillis() + "," + rows + "," + ages);
            out.close();
        }
    }
}
