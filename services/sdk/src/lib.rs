//! What a service and a driver are made of
