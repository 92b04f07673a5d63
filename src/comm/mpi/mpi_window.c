/* Shared-memory collectives of ranks on one host. */
