/* run_issue */
