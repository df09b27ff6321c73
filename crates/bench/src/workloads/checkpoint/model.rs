//! The synthetic model: its tensors, and which rank has which part. Pure.

use serde::{Deserialize, Serialize};

use crate::{BenchError, Params, Result};

/// The largest state, in bytes.
const MOST: u64 = 1 << 44;

/// `Linear(input, hidden)`, `layers - 2` times `Linear(hidden, hidden)`, `Linear(hidden, input)`,
/// each with a bias.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Model {
    layers: u64,
    input_dim: u64,
    hidden_dim: u64,
    /// Whether Adam's two moments are saved too.
    adam: bool,
    /// Bytes of one number.
    width: u64,
}

/// One tensor of the state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tensor {
    pub(super) rows: u64,
    pub(super) row_bytes: u64,
}

impl Tensor {
    pub(super) fn bytes(self) -> u64 {
        self.rows * self.row_bytes
    }

    /// The bytes `[start, end)` of the tensor that `rank` of `world` has: as many whole rows for
    /// each, the last may have fewer or none.
    pub(super) fn part(self, rank: u32, world: u32) -> (u64, u64) {
        let each = self.rows.div_ceil(u64::from(world.max(1)));
        let row = |rank: u64| (each * rank).min(self.rows) * self.row_bytes;
        (row(u64::from(rank)), row(u64::from(rank) + 1))
    }
}

/// Bytes of a tensor in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    /// Number of the tensor.
    pub(super) tensor: u64,
    /// Where in the tensor they begin, and how many they are.
    pub(super) start: u64,
    pub(super) bytes: u64,
    /// Number of the rank's file, and where in it.
    pub(super) file: u64,
    pub(super) at: u64,
}

impl Model {
    pub(super) fn new(params: &Params) -> Result<Self> {
        let model = Self {
            layers: params.count("layers")?,
            input_dim: params.positive("input_dim")?,
            hidden_dim: params.positive("hidden_dim")?,
            adam: params.text("optimizer")? == "adam",
            width: if params.text("dtype")? == "float32" {
                4
            } else {
                2
            },
        };
        let small = model.input_dim.max(model.hidden_dim) < 1 << 24;
        if !(2..=1 << 16).contains(&model.layers) || !small || model.bytes() > MOST {
            return Err(BenchError::Usage(format!(
                "a model has 2 to 65536 layers, dimensions below 16777216 and a state of at most 16 TiB: {model:?}"
            )));
        }
        Ok(model)
    }

    /// Every tensor of the state, in the order of the files: weights and biases, then moments.
    pub(super) fn tensors(self) -> impl Iterator<Item = Tensor> {
        let copies = if self.adam { 3 } else { 1 };
        (0..copies).flat_map(move |_| {
            (0..self.layers).flat_map(move |layer| {
                let inputs = if layer == 0 {
                    self.input_dim
                } else {
                    self.hidden_dim
                };
                let last = layer + 1 == self.layers;
                let rows = if last {
                    self.input_dim
                } else {
                    self.hidden_dim
                };
                let tensor = |row: u64| Tensor {
                    rows,
                    row_bytes: row * self.width,
                };
                [tensor(inputs), tensor(1)]
            })
        })
    }

    /// Bytes of the whole state.
    pub(super) fn bytes(self) -> u64 {
        let (i, h, l) = (
            u128::from(self.input_dim),
            u128::from(self.hidden_dim),
            u128::from(self.layers.max(2)),
        );
        let parameters = 2 * i * h + h + i + (l - 2) * (h * h + h);
        let copies = if self.adam { 3 } else { 1 };
        u64::try_from(parameters * u128::from(self.width) * copies).unwrap_or(u64::MAX)
    }

    /// What `rank` of `world` has in its files: all in one, or each tensor in its own.
    pub(super) fn pieces(self, rank: u32, world: u32, single: bool) -> Vec<Piece> {
        let (mut pieces, mut at) = (Vec::new(), 0);
        for (tensor, shape) in self.tensors().enumerate() {
            let (start, end) = shape.part(rank, world);
            if start == end {
                continue;
            }
            let (tensor, bytes) = (tensor as u64, end - start);
            let (file, place) = if single { (0, at) } else { (tensor, 0) };
            pieces.push(Piece {
                tensor,
                start,
                bytes,
                file,
                at: place,
            });
            at += bytes;
        }
        pieces
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn model(layers: u64, input_dim: u64, hidden_dim: u64, adam: bool) -> Model {
        Model {
            layers,
            input_dim,
            hidden_dim,
            adam,
            width: 4,
        }
    }

    #[test]
    fn a_state_has_the_bytes_of_the_formula() {
        // 2*3*5 + 5 + 3 + 2*(25 + 5) = 98 parameters.
        assert_eq!(model(4, 3, 5, false).bytes(), 98 * 4);
        assert_eq!(model(4, 3, 5, true).bytes(), 98 * 12);
    }

    #[test]
    fn the_last_ranks_may_have_less_or_nothing() {
        let tensor = Tensor {
            rows: 5,
            row_bytes: 10,
        };
        let parts: Vec<_> = (0..4).map(|rank| tensor.part(rank, 4)).collect();
        assert_eq!(parts, [(0, 20), (20, 40), (40, 50), (50, 50)]);
    }

    proptest! {
        #[test]
        fn ranks_share_the_state_and_files_have_no_gap(
            layers in 2u64..6, input in 1u64..40, hidden in 1u64..40, adam: bool,
            world in 1u32..9, single: bool,
        ) {
            let model = model(layers, input, hidden, adam);
            let sizes: Vec<u64> = model.tensors().map(Tensor::bytes).collect();
            prop_assert_eq!(sizes.iter().sum::<u64>(), model.bytes());
            let mut covered = vec![0; sizes.len()];
            for rank in 0..world {
                let mut end = std::collections::BTreeMap::new();
                for piece in model.pieces(rank, world, single) {
                    prop_assert_eq!(piece.start, covered[piece.tensor as usize]);
                    covered[piece.tensor as usize] += piece.bytes;
                    let end = end.entry(piece.file).or_insert(0);
                    prop_assert_eq!(piece.at, *end);
                    *end += piece.bytes;
                }
            }
            prop_assert_eq!(covered, sizes);
        }
    }
}
