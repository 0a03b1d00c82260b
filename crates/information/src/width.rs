//! One source for every width of vector instructions.

/// Compiles a function for each of several instruction sets; a call takes the widest that the processor has. The features
/// `at-most-avx2` and `plain` leave out the wider ones, so that a test can compare what each gives.
macro_rules! every_width {
    ($($function:tt)*) => {
        #[cfg_attr(
            not(any(feature = "at-most-avx2", feature = "plain")),
            multiversion::multiversion(targets(
                "x86_64+avx512f+avx512vl+avx512dq+avx512bw",
                "x86_64+avx2+fma",
                "aarch64+neon"
            ))
        )]
        #[cfg_attr(
            all(feature = "at-most-avx2", not(feature = "plain")),
            multiversion::multiversion(targets("x86_64+avx2+fma"))
        )]
        $($function)*
    };
}

pub(crate) use every_width;
