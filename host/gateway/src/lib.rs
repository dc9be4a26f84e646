//! Serves callers that reach the host over TCP
