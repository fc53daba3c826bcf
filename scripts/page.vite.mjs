// How vite bundles the page of `dev`; scripts/build.mjs runs it. Paths are relative to src/dev/page.
export default {
  base: './',
  build: {
    outDir: '../../../dist/dev/page',
    emptyOutDir: true,
    target: 'es2022',
    // Everything in files of its own: the page allows nothing inline.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
    // In kB: it comes from this machine.
    chunkSizeWarningLimit: 1_000,
  },
}
