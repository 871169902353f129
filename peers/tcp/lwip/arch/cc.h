/* lwIP asks for this file; what it holds by default suits gcc and Linux. */
