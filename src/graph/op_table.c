/* op_table.c */
