//! Takes orders.
