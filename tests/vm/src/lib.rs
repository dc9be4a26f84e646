//! Tests in real guests
