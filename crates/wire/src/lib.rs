//! Frames between a client and its node's daemon; no sockets.
