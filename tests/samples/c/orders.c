/* Writes orders to a topic, and counts how often each item has been ordered, with librdkafka:
 *
 *   orders BOOTSTRAP order ITEM...   writes an order of each item, and returns when they are written
 *   orders BOOTSTRAP count NUMBER    reads so many orders, and prints a line "ITEM COUNT" for each item
 */
#include <librdkafka/rdkafka.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PATIENCE_MS = 60000, MOST_ITEMS = 100 };

static int failures = 0;

static void fail(const char *what, const char *why) {
    fprintf(stderr, "orders: %s: %s\n", what, why);
    exit(1);
}

static void set(rd_kafka_conf_t *conf, const char *name, const char *value) {
    char why[512];
    if (rd_kafka_conf_set(conf, name, value, why, sizeof why) != RD_KAFKA_CONF_OK)
        fail(name, why);
}

static rd_kafka_t *client(rd_kafka_type_t type, rd_kafka_conf_t *conf) {
    char why[512];
    rd_kafka_t *made = rd_kafka_new(type, conf, why, sizeof why);
    if (!made)
        fail("client", why);
    return made;
}

static void written(rd_kafka_t *producer, const rd_kafka_message_t *message, void *opaque) {
    if (message->err) {
        fprintf(stderr, "orders: %.*s: %s\n", (int)message->len, (char *)message->payload, rd_kafka_err2str(message->err));
        failures++;
    }
}

static int order(rd_kafka_conf_t *conf, int count, char **items) {
    set(conf, "enable.idempotence", "true");
    rd_kafka_conf_set_dr_msg_cb(conf, written);
    rd_kafka_t *producer = client(RD_KAFKA_PRODUCER, conf);
    for (int i = 0; i < count; i++) {
        rd_kafka_resp_err_t error = rd_kafka_producev(
            producer, RD_KAFKA_V_TOPIC("orders"), RD_KAFKA_V_KEY(items[i], strlen(items[i])),
            RD_KAFKA_V_VALUE(items[i], strlen(items[i])), RD_KAFKA_V_MSGFLAGS(RD_KAFKA_MSG_F_COPY), RD_KAFKA_V_END);
        if (error)
            fail(items[i], rd_kafka_err2str(error));
    }
    if (rd_kafka_flush(producer, PATIENCE_MS))
        fail("orders", "they were not written in time");
    rd_kafka_destroy(producer);
    return failures ? 1 : 0;
}

static int count(rd_kafka_conf_t *conf, int orders) {
    struct { char item[64]; int count; } items[MOST_ITEMS] = {0};
    set(conf, "group.id", "counting");
    set(conf, "auto.offset.reset", "earliest");
    rd_kafka_t *consumer = client(RD_KAFKA_CONSUMER, conf);
    rd_kafka_poll_set_consumer(consumer);
    rd_kafka_topic_partition_list_t *topics = rd_kafka_topic_partition_list_new(1);
    rd_kafka_topic_partition_list_add(topics, "orders", RD_KAFKA_PARTITION_UA);
    rd_kafka_resp_err_t error = rd_kafka_subscribe(consumer, topics);
    if (error)
        fail("subscribe", rd_kafka_err2str(error));
    rd_kafka_topic_partition_list_destroy(topics);
    while (orders > 0) {
        rd_kafka_message_t *message = rd_kafka_consumer_poll(consumer, PATIENCE_MS);
        if (!message)
            fail("count", "no more orders came in time");
        if (message->err) {
            fprintf(stderr, "orders: %s\n", rd_kafka_message_errstr(message));
        } else {
            char item[64];
            snprintf(item, sizeof item, "%.*s", (int)message->len, (char *)message->payload);
            int i = 0;
            while (i < MOST_ITEMS - 1 && items[i].count && strcmp(items[i].item, item))
                i++;
            strcpy(items[i].item, item);
            items[i].count++;
            orders--;
        }
        rd_kafka_message_destroy(message);
    }
    rd_kafka_consumer_close(consumer); /* commits */
    rd_kafka_destroy(consumer);
    for (int i = 0; i < MOST_ITEMS && items[i].count; i++)
        printf("%s %d\n", items[i].item, items[i].count);
    return 0;
}

int main(int argc, char **argv) {
    if (argc < 4 || (strcmp(argv[2], "order") && strcmp(argv[2], "count"))) {
        fprintf(stderr, "usage: orders BOOTSTRAP order ITEM... | orders BOOTSTRAP count NUMBER\n");
        return 2;
    }
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    set(conf, "bootstrap.servers", argv[1]);
    return strcmp(argv[2], "order") ? count(conf, atoi(argv[3])) : order(conf, argc - 3, argv + 3);
}
