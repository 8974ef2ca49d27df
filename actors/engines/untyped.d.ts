/** Declares packages that have no types of their own. */
declare module "@echogarden/fvad-wasm"

declare module "@echogarden/speex-resampler-wasm/simd"
