//! The vFunction echo
