/* Strict text to number, independent of the locale: the whole text is the number. */
#ifndef LS_DATA_NUMBER_H
#define LS_DATA_NUMBER_H

#include "data/data.h"

typedef enum {
  LS_NUMBER_OK,
  LS_NUMBER_BAD,  /* not [+-] digits [. digits] [e [+-] digits] from end to end */
  LS_NUMBER_RANGE /* a number, but larger than a 32-bit float can hold */
} ls_number_t;

/* *value is written only for LS_NUMBER_OK and is finite, also as a float: the nearest double, or for more
 * than 15 digits or extreme exponents one of its two neighbours. */
ls_number_t ls_number_parse(const char *text, size_t len, double *value);

/* YYYY-MM-DD, alone or followed by a time (ISO 8601: [T or space]hh:mm[:ss[.fff]][Z or +hh:mm]). */
bool ls_number_is_date(const char *text, size_t len);
/* The numbers in such a date; LS_DATE_WEEKDAY: Monday is 0; LS_DATE_YEARDAY: January 1 is 1; without a time hour and
 * minute are 0, and *timed is false. False: no date, or none of the calendar. */
typedef enum {
  LS_DATE_YEAR,
  LS_DATE_MONTH,
  LS_DATE_DAY,
  LS_DATE_WEEKDAY,
  LS_DATE_YEARDAY,
  LS_DATE_HOUR,
  LS_DATE_MINUTE,
  LS_DATE_PARTS
} ls_date_part_t;
extern const char *const ls_date_part_names[]; /* NULL-terminated */
/* Seconds from the year 0 to such a date, in UTC where it says its zone. `text` has passed ls_number_is_date. Pure. */
double ls_number_seconds(const char *text, size_t len);
bool ls_number_date(const char *text, size_t len, double part[LS_DATE_PARTS], bool *timed);

#endif
