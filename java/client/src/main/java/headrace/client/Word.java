package headrace.client;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.Locale;

/** Reads the enums of the protocol. */
final class Word {
    private Word() {
    }

    /**
     * Returns a value of an enum, which a message has in a field, as PREFIX_VALUE. Daemons of the version before had
     * only its name in another field.
     *
     * @param old that other field; empty: there was none
     * @param none when the message has neither
     * @param unknown when it is one that this version does not know
     */
    static <E extends Enum<E>> E read(JsonNode message, String field, String prefix, String old, E none, E unknown) {
        String value = message.path(field).asText();
        if (value.startsWith(prefix)) {
            value = value.substring(prefix.length());
        } else if (value.isEmpty()) {
            value = message.path(old).asText().toUpperCase(Locale.ROOT).replace(' ', '_');
        }
        if (value.isEmpty()) {
            return none;
        }
        try {
            return Enum.valueOf(none.getDeclaringClass(), value);
        } catch (IllegalArgumentException e) {
            return unknown;
        }
    }

    /** The name of a value for people. */
    static String of(Enum<?> value) {
        return value.name().toLowerCase(Locale.ROOT).replace('_', ' ');
    }
}
