//! Completions are adjudicated against contracts: verdicts, rates, intervals, contrasts.

