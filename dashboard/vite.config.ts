import tailwind from '@tailwindcss/vite'
import react from '@vitejs/plugin-react'
import { defineConfig } from 'vitest/config'

// The built page is committed, so that installing needs no Node: file names carry no hash, and CI compares the bytes.
export default defineConfig({
  plugins: [react(), tailwind()],
  base: './', // the server says in <base> where the page lives
  build: {
    outDir: '../src/indelible/server/page',
    emptyOutDir: true,
    assetsInlineLimit: 0, // the page's policy allows no data: addresses
    modulePreload: { polyfill: false },
    rolldownOptions: {
      output: {
        entryFileNames: 'assets/app.js',
        chunkFileNames: 'assets/[name].js',
        assetFileNames: 'assets/[name][extname]',
        codeSplitting: { groups: [{ name: 'vendor', test: /node_modules/ }] },
      },
    },
  },
  server: { proxy: { '/v1': 'http://127.0.0.1:8787', '/signin': 'http://127.0.0.1:8787' } },
  // A document costs a second for each file: the few that need one say so in their first line.
  test: { environment: 'node', include: ['src/**/*.test.{ts,tsx}'] },
})
