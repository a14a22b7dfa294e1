//! Payloads are searched for a contract's targets: tiers, byte spans, negation, weak labels.
