/* ops/reduce.c */
