"""The console in a real Chromium, by Playwright; whether it is accessible says axe."""
