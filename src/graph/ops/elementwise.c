/* ops/elementwise.c */
