/* What the host transports share: element sums, argument checks, streams. */
