//! What the processes of a node share: the residency map, block files and last-use stamps.
