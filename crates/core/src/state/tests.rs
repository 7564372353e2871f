//! Tests of the state: placeholder until the property tests below it land.
