import { defineConfig } from 'vite'

// The verifier of the page, as one script for the HTML report: readable, for an auditor may want to read it.
export default defineConfig({
  publicDir: false,
  build: {
    outDir: '../src/indelible/journal/exports/report_page',
    emptyOutDir: false,
    minify: false,
    target: 'es2022',
    lib: { entry: 'src/record/report.ts', formats: ['iife'], name: 'verifier', fileName: () => 'verifier.js' },
  },
})
