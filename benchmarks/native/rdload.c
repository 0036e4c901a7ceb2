/* Loads through librdkafka: what an application with a real client sees.
 *
 * The library is opened at run time (the one inside the confluent-kafka wheel will do), so no header or -dev package is
 * needed: the few functions used are declared here as its public C API documents them.
 *
 *   rdload LIBRARY produce BOOTSTRAP TOPIC PARTITIONS SECONDS MAX-BYTES VALUE-FILE SIZE [KEY=VALUE...]
 *   rdload LIBRARY latency BOOTSTRAP TOPIC PARTITIONS SECONDS 0         VALUE-FILE SIZE [KEY=VALUE...]
 *   rdload LIBRARY consume BOOTSTRAP TOPIC PARTITIONS SECONDS MAX-BYTES VALUE-FILE SIZE [KEY=VALUE...]
 *   rdload LIBRARY tail    BOOTSTRAP TOPIC PARTITIONS SECONDS 0         VALUE-FILE SIZE [KEY=VALUE...]
 *
 * produce: as fast as the queue takes records; a sample is enqueue to delivery report.  latency: one record at a time.
 * consume: every partition from its beginning to its end.  tail: one record at a time, from produce to its arrival at a
 * consumer in the same process. */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <time.h>

enum { PRODUCER, CONSUMER, CONF_OK = 0, FREE_NOTHING = 0, COPY = 2, TEXT = 512 };
enum { OFFSET_BEGINNING = -2, ERROR_QUEUE_FULL = -184, ERROR_PARTITION_EOF = -191 };

struct message {
    int error;
    void *topic;
    int32_t partition;
    void *payload;
    size_t len;
    void *key;
    size_t key_len;
    int64_t offset;
    void *private;
};

static void *(*conf_new)(void);
static int (*conf_set)(void *, const char *, const char *, char *, size_t);
static void (*conf_set_dr_msg_cb)(void *, void (*)(void *, const struct message *, void *));
static void *(*new_handle)(int, void *, char *, size_t);
static void *(*topic_new)(void *, const char *, void *);
static int (*produce)(void *, int32_t, int, void *, size_t, const void *, size_t, void *);
static int (*poll_events)(void *, int);
static int (*flush)(void *, int);
static int (*last_error)(void);
static const char *(*err2str)(int);
static void *(*queue_new)(void *);
static int (*consume_start_queue)(void *, int32_t, int64_t, void *);
static ssize_t (*consume_batch_queue)(void *, int, struct message **, size_t);
static void (*message_destroy)(struct message *);
static int (*query_watermarks)(void *, const char *, int32_t, int64_t *, int64_t *, int);

static double *sample;
static long samples, room, outstanding, delivered;

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec * 1e-9;
}

static void fail(const char *what, const char *why) {
    fprintf(stderr, "rdload: %s: %s\n", what, why);
    exit(1);
}

static void add(double seconds) {
    if (samples == room) sample = realloc(sample, sizeof(double) * (room = room ? room * 2 : 1 << 16));
    sample[samples++] = seconds;
}

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void report(double took, double requests, double bytes_out, double bytes_in) {
    if (!samples) fail("result", "nothing was delivered");
    qsort(sample, samples, sizeof(double), ascending);
    printf("{\"seconds\": %.6f, \"requests\": %.0f, \"bytes_out\": %.0f, \"bytes_in\": %.0f, \"samples\": %ld, "
           "\"p50_us\": %.1f, \"p99_us\": %.1f, \"p999_us\": %.1f, \"max_us\": %.1f}\n",
           took, requests, bytes_out, bytes_in, samples, sample[samples / 2] * 1e6, sample[(long)(samples * .99)] * 1e6,
           sample[(long)(samples * .999)] * 1e6, sample[samples - 1] * 1e6);
}

static void *symbol(void *library, const char *name) {
    void *found = dlsym(library, name);
    if (!found) fail(name, "not in this librdkafka");
    return found;
}

static void load(const char *path) {
    void *l = dlopen(path, RTLD_NOW);
    if (!l) fail(path, dlerror());
    conf_new = symbol(l, "rd_kafka_conf_new");
    conf_set = symbol(l, "rd_kafka_conf_set");
    conf_set_dr_msg_cb = symbol(l, "rd_kafka_conf_set_dr_msg_cb");
    new_handle = symbol(l, "rd_kafka_new");
    topic_new = symbol(l, "rd_kafka_topic_new");
    produce = symbol(l, "rd_kafka_produce");
    poll_events = symbol(l, "rd_kafka_poll");
    flush = symbol(l, "rd_kafka_flush");
    last_error = symbol(l, "rd_kafka_last_error");
    err2str = symbol(l, "rd_kafka_err2str");
    queue_new = symbol(l, "rd_kafka_queue_new");
    consume_start_queue = symbol(l, "rd_kafka_consume_start_queue");
    consume_batch_queue = symbol(l, "rd_kafka_consume_batch_queue");
    message_destroy = symbol(l, "rd_kafka_message_destroy");
    query_watermarks = symbol(l, "rd_kafka_query_watermark_offsets");
}

static void on_delivery(void *handle, const struct message *m, void *opaque) {
    (void)handle, (void)opaque;
    double began;
    if (m->error) fail("delivery", err2str(m->error));
    memcpy(&began, &m->private, sizeof began);
    add(now() - began);
    outstanding--;
    delivered++;
}

static void *handle_for(int kind, const char *bootstrap, int argc, char **argv) {
    char text[TEXT], key[TEXT];
    void *conf = conf_new();
    if (conf_set(conf, "bootstrap.servers", bootstrap, text, TEXT) != CONF_OK) fail("configuration", text);
    for (int i = 0; i < argc; i++) {
        char *equals = strchr(argv[i], '=');
        if (!equals || equals - argv[i] >= TEXT) fail(argv[i], "not KEY=VALUE");
        memcpy(key, argv[i], equals - argv[i]);
        key[equals - argv[i]] = 0;
        if (conf_set(conf, key, equals + 1, text, TEXT) != CONF_OK) fail("configuration", text);
    }
    if (kind == PRODUCER) conf_set_dr_msg_cb(conf, on_delivery);
    void *handle = new_handle(kind, conf, text, TEXT);
    if (!handle) fail("client", text);
    return handle;
}

static void enqueue(void *handle, void *topic, long partition, char *value, size_t size) {
    for (;;) {
        double t = now();
        void *opaque;
        memcpy(&opaque, &t, sizeof opaque);
        if (!produce(topic, (int32_t)partition, FREE_NOTHING, value, size, NULL, 0, opaque)) break;
        if (last_error() != ERROR_QUEUE_FULL) fail("produce", err2str(last_error()));
        poll_events(handle, 10);
    }
    outstanding++;
}

static int64_t stored(void *reader, const char *name, long partitions) {
    int64_t total = 0, low, high;
    for (long p = 0; p < partitions; p++) {
        int error = query_watermarks(reader, name, (int32_t)p, &low, &high, 10000);
        if (error) fail("watermarks", err2str(error));
        total += high - low;
    }
    return total;
}

int main(int argc, char **argv) {
    if (argc < 10) {
        fprintf(stderr, "usage: rdload LIBRARY produce|latency|consume|tail BOOTSTRAP TOPIC PARTITIONS SECONDS "
                        "MAX-BYTES VALUE-FILE SIZE [KEY=VALUE...]\n");
        return 2;
    }
    load(argv[1]);
    const char *mode = argv[2], *bootstrap = argv[3], *name = argv[4];
    long partitions = atol(argv[5]);
    double seconds = atof(argv[6]), most = atof(argv[7]), bytes = 0;
    size_t size = atol(argv[9]), have = 0;
    char *text = malloc(1 << 22);
    FILE *file = fopen(argv[8], "rb");
    if (!file || (have = fread(text, 1, 1 << 22, file)) < size) fail(argv[8], "shorter than one value");
    fclose(file);
    int extra = argc - 10;
    char **set = argv + 10;

    if (!strcmp(mode, "produce") || !strcmp(mode, "latency")) {
        void *handle = handle_for(PRODUCER, bootstrap, extra, set), *topic = topic_new(handle, name, NULL);
        int one = !strcmp(mode, "latency");
        for (long p = 0; p < partitions; p++) enqueue(handle, topic, p, text, size); /* connects, learns the topic */
        if (flush(handle, 30000)) fail("first records", "not delivered within 30 s");
        samples = delivered = 0;
        double began = now();
        for (long i = 0; now() - began < seconds && (!most || bytes < most); i++) {
            enqueue(handle, topic, i % partitions, text + i * size % (have - size + 1), size);
            bytes += size;
            while (one && outstanding) poll_events(handle, 100);
            if (!(i & 127)) poll_events(handle, 0);
        }
        if (flush(handle, 60000)) fail("flush", "not done within 60 s");
        report(now() - began, delivered, bytes, 0);
        return 0;
    }
    void *reader = handle_for(CONSUMER, bootstrap, 0, set), *incoming = queue_new(reader);
    void *topic = topic_new(reader, name, NULL);
    struct message *batch[1000];
    if (!strcmp(mode, "consume")) {
        int64_t total = stored(reader, name, partitions);
        double began = now(), last = began;
        for (long p = 0; p < partitions; p++) consume_start_queue(topic, (int32_t)p, OFFSET_BEGINNING, incoming);
        int64_t got = 0;
        while (got < total && now() - began < seconds && (!most || bytes < most)) {
            ssize_t n = consume_batch_queue(incoming, 100, batch, 1000);
            for (ssize_t i = 0; i < n; i++) {
                int error = batch[i]->error;
                if (error && error != ERROR_PARTITION_EOF) fail("consume", err2str(error));
                if (!error) bytes += batch[i]->len, got++;
                message_destroy(batch[i]);
            }
            if (n > 0) add(now() - last), last = now(); /* between deliveries to the application */
        }
        report(now() - began, got, 0, bytes);
        return 0;
    }
    if (strcmp(mode, "tail")) fail(mode, "is not produce, latency, consume or tail");
    void *writer = handle_for(PRODUCER, bootstrap, extra, set), *out = topic_new(writer, name, NULL);
    for (long p = 0; p < partitions; p++) enqueue(writer, out, p, text, size);
    if (flush(writer, 30000)) fail("first records", "not delivered within 30 s");
    samples = 0;
    int64_t before = stored(reader, name, partitions); /* those of earlier rounds, too */
    for (long p = 0; p < partitions; p++) consume_start_queue(topic, (int32_t)p, OFFSET_BEGINNING, incoming);
    double *tail = NULL;
    long tails = 0, space = 0;
    double began = 0, stop = now() + seconds + 30;
    for (long waited = 0; now() < stop;) {
        /* What was there before comes first; once it is read, one record at a time: the call waits for a full batch. */
        ssize_t n = began && !waited ? 0 : consume_batch_queue(incoming, 500, batch, began ? 1 : 1000);
        for (ssize_t i = 0; i < n; i++) {
            if (batch[i]->error && batch[i]->error != ERROR_PARTITION_EOF) fail("consume", err2str(batch[i]->error));
            if (!batch[i]->error && !began) before--;
            if (!batch[i]->error && began) {
                double sent;
                memcpy(&sent, batch[i]->payload, sizeof sent);
                if (tails == space) tail = realloc(tail, sizeof(double) * (space = space ? space * 2 : 1 << 16));
                tail[tails++] = now() - sent;
                waited--;
            }
            message_destroy(batch[i]);
        }
        if (!began) {
            if (before <= 0) began = now(), stop = began + seconds;
            continue;
        }
        if (waited > 0) continue;
        poll_events(writer, 0);
        struct timespec pause = {0, 200000};
        nanosleep(&pause, NULL);
        double t = now();
        memcpy(text, &t, sizeof t);
        while (produce(out, (int32_t)(tails % partitions), COPY, text, size, NULL, 0, NULL)) poll_events(writer, 10);
        outstanding++;
        waited++;
    }
    free(sample);
    sample = tail;
    samples = tails;
    report(now() - began, tails, (double)tails * size, (double)tails * size);
    return 0;
}
