/* ops/loss.c */
