/* line.h -- from an address of a code object to a line of its source, by the DWARF line table. */
#ifndef TDSL_SIM_LINE_H
#define TDSL_SIM_LINE_H
#include <stddef.h>
#include <stdint.h>

struct sim_bytes { const uint8_t *p; size_t size; };
struct sim_lines;

/* Keeps copies of .debug_line, .debug_line_str and .debug_str (sizes may be 0).  NULL without memory. */
struct sim_lines *sim_lines_new(struct sim_bytes line, struct sim_bytes line_str, struct sim_bytes str);
void sim_lines_free(struct sim_lines *);
/* "file:12" of `address`, or "" where the table says nothing.  The table is decoded at the first call; thread safe. */
void sim_lines_find(struct sim_lines *, uint64_t address, char *buf, size_t len);
#endif
