//! Tests that need no guest
