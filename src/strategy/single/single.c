/* single/single */
