import '@picocss/pico/css/pico.min.css'
import './style.css'
import { render } from 'preact'
import { App } from './app.js'

const place = document.getElementById('app')
if (place !== null) render(<App />, place)
