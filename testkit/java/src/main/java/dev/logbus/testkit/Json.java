package dev.logbus.testkit;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** As much of JSON as the control interface needs, so that the test kit needs no library for it. */
final class Json {
    private final String text;
    private int at;

    private Json(String text) {
        this.text = text;
    }

    /** The object that a text has. */
    @SuppressWarnings("unchecked")
    static Map<String, Object> object(String text) {
        Object found = new Json(text).value();
        if (!(found instanceof Map)) {
            throw new IllegalArgumentException("not a JSON object: " + text);
        }
        return (Map<String, Object>) found;
    }

    /** The text of maps, lists, texts, numbers and booleans. */
    static String text(Object value) {
        StringBuilder out = new StringBuilder();
        write(value, out);
        return out.toString();
    }

    private static void write(Object value, StringBuilder out) {
        if (value instanceof Map) {
            String separator = "{";
            for (Map.Entry<?, ?> each : ((Map<?, ?>) value).entrySet()) {
                out.append(separator);
                write(String.valueOf(each.getKey()), out);
                out.append(':');
                write(each.getValue(), out);
                separator = ",";
            }
            out.append(separator.equals("{") ? "{}" : "}");
        } else if (value instanceof Iterable) {
            String separator = "[";
            for (Object each : (Iterable<?>) value) {
                out.append(separator);
                write(each, out);
                separator = ",";
            }
            out.append(separator.equals("[") ? "[]" : "]");
        } else if (value == null || value instanceof Number || value instanceof Boolean) {
            out.append(value);
        } else {
            out.append('"');
            for (char c : value.toString().toCharArray()) {
                if (c == '"' || c == '\\' || c < ' ') {
                    out.append(String.format("\\u%04x", (int) c));
                } else {
                    out.append(c);
                }
            }
            out.append('"');
        }
    }

    private Object value() {
        char c = next();
        if (c == '{') {
            Map<String, Object> found = new LinkedHashMap<>();
            for (boolean more = !end('}'); more; more = follows('}')) {
                expect('"');
                String name = string();
                expect(':');
                found.put(name, value());
            }
            return found;
        }
        if (c == '[') {
            List<Object> found = new ArrayList<>();
            for (boolean more = !end(']'); more; more = follows(']')) {
                found.add(value());
            }
            return found;
        }
        if (c == '"') {
            return string();
        }
        int begin = at - 1;
        while (at < text.length() && "+-.".indexOf(text.charAt(at)) >= 0 || at < text.length()
                && Character.isLetterOrDigit(text.charAt(at))) {
            at++;
        }
        String word = text.substring(begin, at);
        switch (word) {
            case "true":
                return true;
            case "false":
                return false;
            case "null":
                return null;
            default:
                if (word.matches("-?[0-9]+")) {
                    return Long.valueOf(word);
                }
                return Double.valueOf(word);
        }
    }

    private String string() {
        StringBuilder found = new StringBuilder();
        for (char c = text.charAt(at++); c != '"'; c = text.charAt(at++)) {
            if (c != '\\') {
                found.append(c);
                continue;
            }
            char escaped = text.charAt(at++);
            if (escaped == 'u') {
                found.append((char) Integer.parseInt(text.substring(at, at + 4), 16));
                at += 4;
            } else {
                int index = "bfnrt".indexOf(escaped);
                found.append(index < 0 ? escaped : "\b\f\n\r\t".charAt(index));
            }
        }
        return found.toString();
    }

    private char next() {
        while (Character.isWhitespace(text.charAt(at))) {
            at++;
        }
        return text.charAt(at++);
    }

    private void expect(char wanted) {
        if (next() != wanted) {
            throw new IllegalArgumentException("not JSON at " + at + ": " + text);
        }
    }

    private boolean end(char bracket) {
        if (next() == bracket) {
            return true;
        }
        at--;
        return false;
    }

    private boolean follows(char bracket) {
        if (end(bracket)) {
            return false;
        }
        expect(',');
        return true;
    }
}
