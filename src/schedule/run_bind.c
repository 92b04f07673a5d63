/* run_bind */
