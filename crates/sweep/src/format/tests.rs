use proptest::prelude::*;

use super::*;

const ALL: [Format; 4] = [Format::Raw, Format::Tfrecord, Format::Npz, Format::Hdf5];

fn shape(format: Format, samples: u32, sample_bytes: u64) -> Shape {
    Shape {
        format,
        samples,
        sample_bytes,
    }
}

proptest! {
    #[test]
    fn what_is_made_is_what_is_checked(samples in 1u32..5, bytes in 16u64..3_000, file: u32, seed: u64) {
        for format in ALL {
            let shape = shape(format, samples, bytes);
            let made = shape.encode(file, seed);
            prop_assert_eq!(made.len() as u64, shape.file_bytes());
            prop_assert_eq!(shape.check(file, seed, &made), Ok(()));
            prop_assert!(shape.check(file ^ 1, seed, &made).is_err());
            prop_assert!(shape.check(file, seed ^ 1, &made).is_err());
            prop_assert!(shape.check(file, seed, &made[1..]).is_err());
        }
    }

    #[test]
    fn a_changed_byte_of_a_sample_is_found(at in 0usize..400, bit in 0u8..8) {
        for format in ALL {
            let shape = shape(format, 2, 200);
            let mut made = shape.encode(3, 4);
            let place = shape.payload(at as u32 / 200).start + at % 200;
            made[place] ^= 1 << bit;
            prop_assert!(shape.check(3, 4, &made).is_err());
        }
    }
}

#[test]
fn an_hdf5_reader_finds_the_samples() {
    let shape = shape(Format::Hdf5, 3, 100);
    let made = shape.encode(5, 6);
    let file = hdf5_reader::Hdf5File::from_bytes(&made).expect("valid");
    let records = file.dataset("records").expect("it is there");
    assert_eq!(records.shape(), [3, 100]);
    let read = records.read_array::<u8>().expect("bytes");
    assert_eq!(
        read.as_slice().expect("in order"),
        shape.payloads(5, 6).concat()
    );
}

#[test]
fn the_bytes_of_a_file_are_frozen() {
    // Data sets that were made are read by later versions.
    let found = ALL.map(|format| xxh3_64(&shape(format, 2, 40).encode(7, 8)));
    assert_eq!(
        found, FROZEN,
        "files changed: data sets that were made are no longer valid"
    );
}

const FROZEN: [u64; 4] = [
    14_358_287_521_678_648_534,
    8_494_747_003_728_936_699,
    13_342_554_561_340_403_174,
    13_175_655_596_961_593_748,
];
