# cython: language_level=3
# CRC-32C without the interpreter's lock, for loops over many batches. Others use logbus.records.checksum.

from libc.stddef cimport size_t
from libc.stdint cimport uint8_t, uint32_t

cdef extern from *:
    """
    #include <stddef.h>
    #include <stdint.h>
    #include <string.h>

    /* The tables of "slicing by 8": a word of eight bytes takes one look-up for each of them. */
    static uint32_t logbus_crc_table[8][256];
    static int logbus_crc_is_ready = 0;
    static int logbus_crc_has_instruction = 0;

    static void logbus_crc_prepare(void) {
        uint32_t n, crc;
        int i, k;
        if (logbus_crc_is_ready) return;
        for (n = 0; n < 256; n++) {
            crc = n;
            for (i = 0; i < 8; i++) crc = crc & 1 ? (crc >> 1) ^ 0x82F63B78u : crc >> 1;
            logbus_crc_table[0][n] = crc;
        }
        for (n = 0; n < 256; n++) {
            crc = logbus_crc_table[0][n];
            for (k = 1; k < 8; k++) {
                crc = logbus_crc_table[0][crc & 0xFF] ^ (crc >> 8);
                logbus_crc_table[k][n] = crc;
            }
        }
    #if defined(__GNUC__) && defined(__x86_64__)
        __builtin_cpu_init();
        logbus_crc_has_instruction = __builtin_cpu_supports("sse4.2") != 0;
    #endif
        logbus_crc_is_ready = 1;
    }

    #if defined(__GNUC__) && defined(__x86_64__)
    __attribute__((target("sse4.2")))
    static uint32_t logbus_crc_by_instruction(const uint8_t *data, size_t size) {
        uint64_t crc = 0xFFFFFFFFu, word;
        for (; size >= 8; size -= 8, data += 8) {
            memcpy(&word, data, 8);
            crc = __builtin_ia32_crc32di(crc, word);
        }
        for (; size; size--, data++) crc = __builtin_ia32_crc32qi((uint32_t)crc, *data);
        return ~(uint32_t)crc;
    }
    #else
    static uint32_t logbus_crc_by_table(const uint8_t *data, size_t size);
    #define logbus_crc_by_instruction logbus_crc_by_table
    #endif

    static uint32_t logbus_crc_by_table(const uint8_t *data, size_t size) {
        uint32_t crc = 0xFFFFFFFFu, low, high;
        for (; size >= 8; size -= 8, data += 8) {
            low = crc ^ ((uint32_t)data[0] | (uint32_t)data[1] << 8 | (uint32_t)data[2] << 16 | (uint32_t)data[3] << 24);
            high = (uint32_t)data[4] | (uint32_t)data[5] << 8 | (uint32_t)data[6] << 16 | (uint32_t)data[7] << 24;
            crc = logbus_crc_table[7][low & 0xFF] ^ logbus_crc_table[6][low >> 8 & 0xFF]
                ^ logbus_crc_table[5][low >> 16 & 0xFF] ^ logbus_crc_table[4][low >> 24]
                ^ logbus_crc_table[3][high & 0xFF] ^ logbus_crc_table[2][high >> 8 & 0xFF]
                ^ logbus_crc_table[1][high >> 16 & 0xFF] ^ logbus_crc_table[0][high >> 24];
        }
        for (; size; size--, data++) crc = logbus_crc_table[0][(crc ^ *data) & 0xFF] ^ (crc >> 8);
        return ~crc;
    }

    static uint32_t logbus_crc32c(const uint8_t *data, size_t size, int by_table) {
        return logbus_crc_has_instruction && !by_table
            ? logbus_crc_by_instruction(data, size) : logbus_crc_by_table(data, size);
    }
    """
    # Fills the tables: once, with the interpreter's lock.
    void logbus_crc_prepare()
    uint32_t logbus_crc32c(const uint8_t *data, size_t size, int by_table) noexcept nogil
