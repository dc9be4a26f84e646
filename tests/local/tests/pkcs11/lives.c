/* A program that forks, and that goes on when what stands behind its module dies.
 *
 *   lives MODULE PIN     uses the first token that is set up
 *
 * It says "ready", waits for a line, and says what it hears then. */
#include <dlfcn.h>
#include <p11-kit/pkcs11.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static CK_FUNCTION_LIST_PTR p11;
static const char *pin;

#define SAY(call) printf("%s = 0x%lx\n", #call, (unsigned long)(call))

/* A session of the first token, logged in, and a key of it; 0 if all went well. */
static CK_RV begin(CK_SESSION_HANDLE *session, CK_OBJECT_HANDLE *key) {
	CK_SLOT_ID slots[16];
	CK_ULONG n = 16;
	CK_BYTE p256[] = { 0x06, 0x08, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07 };
	CK_MECHANISM make = { CKM_EC_KEY_PAIR_GEN, NULL, 0 };
	CK_ATTRIBUTE curve = { CKA_EC_PARAMS, p256, sizeof p256 };
	CK_OBJECT_HANDLE public;
	CK_RV rv = p11->C_GetSlotList(CK_TRUE, slots, &n);
	if (rv != CKR_OK) return rv;
	rv = p11->C_OpenSession(slots[0], CKF_SERIAL_SESSION | CKF_RW_SESSION, NULL, NULL, session);
	if (rv != CKR_OK) return rv;
	rv = p11->C_Login(*session, CKU_USER, (CK_UTF8CHAR_PTR)pin, strlen(pin));
	/* A child of a program that is logged in is so too, natively. */
	if (rv != CKR_OK && rv != CKR_USER_ALREADY_LOGGED_IN) return rv;
	return p11->C_GenerateKeyPair(*session, &make, &curve, 1, NULL, 0, &public, key);
}

static CK_RV sign(CK_SESSION_HANDLE session, CK_OBJECT_HANDLE key) {
	CK_MECHANISM ecdsa = { CKM_ECDSA, NULL, 0 };
	CK_BYTE hash[32] = { 1 }, signature[128];
	CK_ULONG n = sizeof signature;
	CK_RV rv = p11->C_SignInit(session, &ecdsa, key);
	if (rv != CKR_OK) return rv;
	rv = p11->C_Sign(session, hash, sizeof hash, signature, &n);
	return rv == CKR_OK && n != 64 ? CKR_GENERAL_ERROR : rv;
}

static int child(CK_SESSION_HANDLE parents) {
	CK_SESSION_HANDLE session;
	CK_OBJECT_HANDLE key;
	CK_SESSION_INFO info;
	/* What the parent has is not the child's. */
	printf("a session of the parent: %s\n", p11->C_GetSessionInfo(parents, &info) == CKR_OK ? "there" : "gone");
	CK_RV rv = p11->C_Initialize(NULL);
	printf("the child begins: %d\n", rv == CKR_OK || rv == CKR_CRYPTOKI_ALREADY_INITIALIZED);
	SAY(begin(&session, &key));
	SAY(sign(session, key));
	SAY(p11->C_Finalize(NULL));
	fflush(stdout);
	_exit(0);
}

int main(int n, char **words) {
	CK_C_GetFunctionList list;
	CK_SESSION_HANDLE session;
	CK_OBJECT_HANDLE key;
	CK_SESSION_INFO info;
	char line[16];
	int status;
	void *module = n == 3 ? dlopen(words[1], RTLD_NOW) : NULL;
	if (!module) return fprintf(stderr, "lives MODULE PIN: %s\n", n == 3 ? dlerror() : ""), 2;
	*(void **)&list = dlsym(module, "C_GetFunctionList");
	if (!list || list(&p11) != CKR_OK) return 2;
	pin = words[2];
	SAY(p11->C_Initialize(NULL));
	SAY(p11->C_Initialize(NULL));
	SAY(begin(&session, &key));
	SAY(sign(session, key));
	fflush(stdout);
	pid_t pid = fork();
	if (pid == 0) child(session);
	waitpid(pid, &status, 0);
	printf("the child ended with %d\n", status);
	SAY(sign(session, key));
	printf("ready\n");
	fflush(stdout);
	if (!fgets(line, sizeof line, stdin)) return 1;
	/* Natively nothing has happened. */
	printf("then: sign 0x%lx, ", (unsigned long)sign(session, key));
	printf("session 0x%lx\n", (unsigned long)p11->C_GetSessionInfo(session, &info));
	CK_RV rv = p11->C_Finalize(NULL);
	printf("the end: %d\n", rv == CKR_OK || rv == CKR_DEVICE_REMOVED);
	SAY(p11->C_Initialize(NULL));
	SAY(begin(&session, &key));
	SAY(sign(session, key));
	SAY(p11->C_Finalize(NULL));
	return 0;
}
