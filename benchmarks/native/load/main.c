#include "load.h"

#include <stdio.h>
#include <string.h>

int main(int argc, char **argv) {
    if (argc > 1 && !strcmp(argv[1], "produce")) return run_produce(argc - 2, argv + 2);
    if (argc > 1 && !strcmp(argv[1], "fetch")) return run_fetch(argc - 2, argv + 2);
    if (argc > 1 && !strcmp(argv[1], "tail")) return run_tail(argc - 2, argv + 2);
    fprintf(stderr, "usage: load produce|fetch|tail ...\n");
    return 2;
}
