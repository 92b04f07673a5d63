/* ops/dropout.c */
