import java.time.Duration;
import java.util.Arrays;
import java.util.Properties;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.kstream.GlobalKTable;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.Produced;

/**
 * An application of Kafka Streams: it counts words, which go to other partitions for that, and joins lines with what a
 * table has for their keys. Arguments: name=value settings of it. It ends when its standard input does.
 *
 * <p>Topics: lines, authors; counts, signed.
 */
public final class WordCount {
    public static void main(String[] settings) throws Exception {
        Properties given = new Properties();
        for (String one : settings) {
            given.setProperty(one.substring(0, one.indexOf('=')), one.substring(one.indexOf('=') + 1));
        }
        var text = Serdes.String();
        given.put("default.key.serde", text.getClass());
        given.put("default.value.serde", text.getClass());
        StreamsBuilder builder = new StreamsBuilder();
        KStream<String, String> lines = builder.stream("lines");
        lines.flatMapValues(line -> Arrays.asList(line.split(" ")))
                .groupBy((author, word) -> word)
                .count()
                .mapValues(count -> Long.toString(count))
                .toStream()
                .to("counts", Produced.with(text, text));
        GlobalKTable<String, String> authors = builder.globalTable("authors");
        lines.join(authors, (key, line) -> key, (line, author) -> author + ": " + line).to("signed");
        KafkaStreams streams = new KafkaStreams(builder.build(given), given);
        streams.setStateListener((state, before) -> System.out.println(state));
        streams.start();
        while (System.in.read() >= 0) {}
        streams.close(Duration.ofSeconds(60));
        // The listener's thread may not come to it before the program ends.
        System.out.println(streams.state());
    }
}
