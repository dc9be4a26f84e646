//! The service process for native drivers
