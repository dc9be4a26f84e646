/* Calls a PKCS#11 module as programs do, and wrongly, and prints what it says: a line for each
   thing. Natively and by VirtFun the lines are the same. The module is the first argument. With
   "init" as second argument it makes a token with the label "vfun" and the PIN "8372"; with "dies"
   it waits for its service's end; with "logs in" it does that and waits for its input's end; with
   "waits" it waits for events of slots. */
#include <dlfcn.h>
#include <p11-kit/pkcs11.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static CK_FUNCTION_LIST *f;
static CK_SLOT_ID slot;
static CK_SESSION_HANDLE s;
static CK_BBOOL yes = 1, no = 0;

#define SAY(call) printf("%s = 0x%lx\n", #call, (unsigned long)(call))
#define COUNT(a) (sizeof(a) / sizeof *(a))

static void numbers(const char *what, unsigned long a, unsigned long b)
{
    printf("%s: %lu %lu\n", what, a, b);
}

/* Whether the module asks a host. */
static int remoted(void)
{
    return getenv("VFUN_ENDPOINT") != NULL;
}

/* Of what the module itself does otherwise. */
static void check(const char *what, int good)
{
    if (!good)
        printf("wrong: %s\n", what);
}

static void beginnings(void)
{
    CK_INFO info;
    CK_C_INITIALIZE_ARGS args;
    CK_ULONG n;
    memset(&args, 0, sizeof args);
    SAY(f->C_GetInfo(&info));
    SAY(f->C_GetSlotList(0, NULL, &n));
    SAY(f->C_CloseSession(1));
    SAY(f->C_GetFunctionStatus(1));
    SAY(f->C_Finalize(NULL));
    args.pReserved = &args;
    SAY(f->C_Initialize(&args));
    args.pReserved = NULL;
    args.CreateMutex = (CK_CREATEMUTEX)beginnings;
    SAY(f->C_Initialize(&args));
    args.CreateMutex = NULL;
    args.flags = CKF_OS_LOCKING_OK;
    SAY(f->C_Initialize(&args));
    SAY(f->C_Initialize(NULL));
    SAY(f->C_GetInfo(NULL));
    SAY(f->C_GetInfo(&info));
    numbers("version", info.cryptokiVersion.major, info.cryptokiVersion.minor);
    printf("manufacturer %.32s\n", info.manufacturerID);
    SAY(f->C_Finalize(&args));
}

static int find_slot(void)
{
    CK_SLOT_ID all[64];
    CK_TOKEN_INFO token;
    CK_SLOT_INFO info;
    CK_MECHANISM_TYPE mechanisms[512];
    CK_MECHANISM_INFO mechanism;
    CK_ULONG n = 0, one = 1, i;
    SAY(f->C_GetSlotList(1, NULL, NULL));
    SAY(f->C_GetSlotList(1, NULL, &n));
    numbers("slots with a token", n, 0);
    SAY(f->C_GetSlotList(0, all, &one));
    numbers("slots", one, 0);
    n = COUNT(all);
    SAY(f->C_GetSlotList(1, all, &n));
    for (i = 0; i < n; i++)
        if (f->C_GetTokenInfo(all[i], &token) == CKR_OK && !memcmp(token.label, "vfun ", 5))
            break;
    if (i == n)
        return 0;
    slot = all[i];
    printf("label %.32s model %.16s\n", token.label, token.model);
    numbers("PIN lengths", token.ulMinPinLen, token.ulMaxPinLen);
    SAY(f->C_GetSlotInfo(slot, &info));
    printf("slot %.15s flags %lx\n", info.slotDescription, info.flags);
    SAY(f->C_GetSlotInfo(slot + 12345, &info));
    SAY(f->C_GetTokenInfo(slot, NULL));
    SAY(f->C_GetMechanismList(slot, NULL, &n));
    one = 1;
    SAY(f->C_GetMechanismList(slot, mechanisms, &one));
    numbers("mechanisms", n, one);
    n = COUNT(mechanisms);
    SAY(f->C_GetMechanismList(slot, mechanisms, &n));
    printf("the first and the last mechanism %lx %lx\n", mechanisms[0], mechanisms[n - 1]);
    SAY(f->C_GetMechanismInfo(slot, CKM_AES_CBC, &mechanism));
    numbers("AES keys", mechanism.ulMinKeySize, mechanism.ulMaxKeySize);
    SAY(f->C_GetMechanismInfo(slot, 0x12345, &mechanism));
    return 1;
}

static void sessions(void)
{
    CK_SESSION_INFO info;
    CK_SESSION_HANDLE other;
    CK_BYTE pin[] = "8372", wrong[] = "4321", random[200];
    SAY(f->C_OpenSession(slot, 0, NULL, NULL, &s));
    SAY(f->C_OpenSession(slot + 12345, CKF_SERIAL_SESSION, NULL, NULL, &s));
    SAY(f->C_OpenSession(slot, CKF_SERIAL_SESSION, NULL, NULL, NULL));
    SAY(f->C_OpenSession(slot, CKF_SERIAL_SESSION | CKF_RW_SESSION, NULL, NULL, &s));
    SAY(f->C_OpenSession(slot, CKF_SERIAL_SESSION, NULL, NULL, &other));
    SAY(f->C_GetSessionInfo(s, &info));
    printf("state %lu flags %lx same slot %d\n", info.state, info.flags, info.slotID == slot);
    SAY(f->C_GetSessionInfo(s + 999, &info));
    SAY(f->C_GetFunctionStatus(s));
    SAY(f->C_CancelFunction(s));
    SAY(f->C_GetSessionInfo(0, &info));
    SAY(f->C_Login(s, CKU_USER, wrong, 4));
    SAY(f->C_Login(s, 77, pin, 4));
    SAY(f->C_Login(s, CKU_USER, NULL, 4));
    SAY(f->C_Login(s, CKU_USER, pin, 4));
    SAY(f->C_Login(s, CKU_USER, pin, 4));
    SAY(f->C_GetSessionInfo(other, &info));
    numbers("state of the other", info.state, 0);
    SAY(f->C_CloseSession(other));
    SAY(f->C_CloseSession(other));
    SAY(f->C_SeedRandom(s, random, 20));
    SAY(f->C_GenerateRandom(s, random, sizeof random));
    SAY(f->C_GenerateRandom(s, NULL, 5));
    SAY(f->C_SetPIN(s, wrong, 4, pin, 4));
    SAY(f->C_SetPIN(s, pin, 4, pin, 4));
}

static CK_OBJECT_HANDLE aes, ec, ec_public, rsa, rsa_public;

static void generate(void)
{
    CK_MECHANISM aes_gen = {CKM_AES_KEY_GEN, NULL, 0}, ec_gen = {CKM_EC_KEY_PAIR_GEN, NULL, 0};
    CK_MECHANISM rsa_gen = {CKM_RSA_PKCS_KEY_PAIR_GEN, NULL, 0}, bad = {CKM_AES_KEY_GEN, &aes_gen, 8};
    CK_ULONG length = 32, bits = 1024;
    CK_BYTE p256[] = {6, 8, 0x2a, 0x86, 0x48, 0xce, 0x3d, 3, 1, 7}, e[] = {1, 0, 1};
    CK_ATTRIBUTE secret[] = {{CKA_VALUE_LEN, &length, sizeof length},
                             {CKA_ENCRYPT, &yes, 1}, {CKA_DECRYPT, &yes, 1},
                             {CKA_WRAP, &yes, 1}, {CKA_UNWRAP, &yes, 1},
                             {CKA_SENSITIVE, &yes, 1}, {CKA_LABEL, "a secret", 8}};
    CK_ATTRIBUTE public[] = {{CKA_EC_PARAMS, p256, sizeof p256}, {CKA_VERIFY, &yes, 1}};
    CK_ATTRIBUTE private[] = {{CKA_SIGN, &yes, 1}, {CKA_DERIVE, &yes, 1}, {CKA_ID, "7", 1}};
    CK_ATTRIBUTE rsa_pub[] = {{CKA_MODULUS_BITS, &bits, sizeof bits}, {CKA_PUBLIC_EXPONENT, e, 3},
                              {CKA_ENCRYPT, &yes, 1}, {CKA_VERIFY, &yes, 1}};
    CK_ATTRIBUTE rsa_priv[] = {{CKA_DECRYPT, &yes, 1}, {CKA_SIGN, &yes, 1}};
    CK_ATTRIBUTE nested[] = {{CKA_WRAP_TEMPLATE, secret, sizeof secret}};
    SAY(f->C_GenerateKey(s, &aes_gen, secret, COUNT(secret), &aes));
    SAY(f->C_GenerateKey(s, NULL, secret, COUNT(secret), &aes));
    SAY(f->C_GenerateKey(s + 999, &aes_gen, secret, COUNT(secret), &aes));
    /* The module itself takes it, and does not look at it. */
    if (remoted())
        check("a parameter that is none", f->C_GenerateKey(s, &bad, secret, 2, &ec) == CKR_MECHANISM_PARAM_INVALID);
    SAY(f->C_GenerateKeyPair(s, &ec_gen, public, 2, private, 3, &ec_public, &ec));
    SAY(f->C_GenerateKeyPair(s, &rsa_gen, rsa_pub, 4, rsa_priv, 2, &rsa_public, &rsa));
    printf("handles differ %d\n", aes != ec && ec != ec_public && rsa != ec && aes != 0);
    if (remoted())
        check("a template in a template", f->C_SetAttributeValue(s, aes, nested, 1) == CKR_ATTRIBUTE_TYPE_INVALID &&
              f->C_GetAttributeValue(s, aes, nested, 1) == CKR_ATTRIBUTE_TYPE_INVALID &&
              nested[0].ulValueLen == CK_UNAVAILABLE_INFORMATION);
}

static void attributes(void)
{
    CK_ULONG class = 99, type = 99, i;
    CK_BYTE label[32], small[3], value[64], copied[16];
    CK_OBJECT_HANDLE copy, gone;
    CK_ATTRIBUTE lengths[] = {{CKA_CLASS, NULL, 0}, {CKA_LABEL, NULL, 0}, {CKA_EC_POINT, NULL, 0}};
    CK_ATTRIBUTE all[] = {{CKA_CLASS, &class, sizeof class}, {CKA_VALUE, value, sizeof value},
                          {CKA_KEY_TYPE, &type, sizeof type}, {CKA_LABEL, label, sizeof label}};
    CK_ATTRIBUTE tight[] = {{CKA_LABEL, small, sizeof small}, {CKA_CLASS, &class, sizeof class}};
    CK_ATTRIBUTE rename[] = {{CKA_LABEL, "another", 7}};
    CK_ATTRIBUTE data[] = {{CKA_CLASS, &class, sizeof class}, {CKA_VALUE, "some data", 9},
                           {CKA_TOKEN, &no, 1}, {CKA_LABEL, "data", 4}};
    CK_ATTRIBUTE back[] = {{CKA_VALUE, copied, sizeof copied}};
    SAY(f->C_GetAttributeValue(s, aes, lengths, 2));
    numbers("lengths", lengths[0].ulValueLen, lengths[1].ulValueLen);
    SAY(f->C_GetAttributeValue(s, aes, lengths, 3));
    SAY(f->C_GetAttributeValue(s, ec_public, lengths, 3));
    for (i = 0; i < 3; i++)
        printf("length %lx\n", lengths[i].ulValueLen);
    SAY(f->C_GetAttributeValue(s, aes, all, 4));
    printf("class %lx type %lx label %.8s lengths %lx %lx %lx %lx\n", class, type, label,
           all[0].ulValueLen, all[1].ulValueLen, all[2].ulValueLen, all[3].ulValueLen);
    SAY(f->C_GetAttributeValue(s, aes, tight, 2));
    printf("lengths %lx %lx\n", tight[0].ulValueLen, tight[1].ulValueLen);
    /* A length of -1 is left by an object without the attribute: programs ask for the next one with it. */
    all[0].ulValueLen = all[3].ulValueLen = (CK_ULONG)-1;
    class = 99;
    SAY(f->C_GetAttributeValue(s, aes, all, 4));
    printf("class %lx label %.8s lengths %lx %lx %lx\n", class, label, all[0].ulValueLen, all[2].ulValueLen,
           all[3].ulValueLen);
    SAY(f->C_GetAttributeValue(s, aes + 12345, all, 4));
    SAY(f->C_GetAttributeValue(s, 0, all, 4));
    SAY(f->C_GetAttributeValue(s, aes, NULL, 1));
    SAY(f->C_SetAttributeValue(s, aes, rename, 1));
    class = CKO_DATA;
    SAY(f->C_CreateObject(s, data, 4, &gone));
    SAY(f->C_CreateObject(s, data, 4, NULL));
    SAY(f->C_CreateObject(s, NULL, 0, &copy));
    SAY(f->C_CopyObject(s, gone, rename, 1, &copy));
    SAY(f->C_GetAttributeValue(s, copy, back, 1));
    printf("copied %.9s %lu\n", copied, back[0].ulValueLen);
    SAY(f->C_GetObjectSize(s, copy, &type));
    SAY(f->C_DestroyObject(s, gone));
    SAY(f->C_DestroyObject(s, gone));
    SAY(f->C_GetAttributeValue(s, gone, back, 1));
    SAY(f->C_GetAttributeValue(s, s, back, 1));
}

static unsigned long found(CK_ATTRIBUTE *templ, CK_ULONG count, CK_OBJECT_HANDLE *to, CK_ULONG most)
{
    CK_ULONG n = 999;
    if (f->C_FindObjectsInit(s, templ, count) != CKR_OK || f->C_FindObjects(s, to, most, &n) != CKR_OK)
        return 9999;
    f->C_FindObjectsFinal(s);
    return n;
}

static void find(void)
{
    CK_OBJECT_HANDLE one[300], two[300];
    CK_ULONG class = CKO_PRIVATE_KEY, n, i, same = 0;
    CK_ATTRIBUTE keys[] = {{CKA_CLASS, &class, sizeof class}};
    CK_ATTRIBUTE labelled[] = {{CKA_LABEL, "another", 7}};
    CK_ATTRIBUTE many[] = {{CKA_CLASS, &class, sizeof class}, {CKA_VALUE, &i, sizeof i}};
    numbers("private keys", found(keys, 1, one, 300), 0);
    printf("they have their handles %d\n", (one[0] == ec || one[0] == rsa));
    numbers("by label", found(labelled, 1, one, 1), 0);
    class = CKO_DATA;
    for (i = 0; i < 150; i++)
        if (f->C_CreateObject(s, many, 2, &one[0]) != CKR_OK)
            printf("data %lu cannot be made\n", i);
    n = found(keys, 1, one, 300);
    numbers("data", n, found(keys, 1, two, 300));
    for (i = 0; i < n && n <= COUNT(one); i++)
        same += one[i] == two[i];
    numbers("the same handles", same, 0);
    SAY(f->C_FindObjects(s, one, 1, &n));
    SAY(f->C_FindObjectsFinal(s));
    SAY(f->C_FindObjectsInit(s, NULL, 0));
    SAY(f->C_FindObjects(s, NULL, 1, &n));
    SAY(f->C_FindObjectsInit(s, NULL, 0));
    SAY(f->C_FindObjectsFinal(s));
}

static CK_BYTE big[200000];

static void digest_and_sign(void)
{
    CK_MECHANISM sha = {CKM_SHA256, NULL, 0}, ecdsa = {CKM_ECDSA, NULL, 0};
    CK_RSA_PKCS_PSS_PARAMS pss = {CKM_SHA256, CKG_MGF1_SHA256, 32};
    CK_MECHANISM rsa_pss = {CKM_SHA256_RSA_PKCS_PSS, &pss, sizeof pss};
    CK_MECHANISM pkcs = {CKM_SHA256_RSA_PKCS, NULL, 0}, unknown = {0x12345678, NULL, 0};
    CK_BYTE digest[32], signature[256];
    CK_ULONG n = sizeof digest, m = 5;
    SAY(f->C_DigestInit(s, &sha));
    SAY(f->C_DigestInit(s, &sha));
    SAY(f->C_Digest(s, (CK_BYTE *)"abc", 3, NULL, &n));
    SAY(f->C_Digest(s, (CK_BYTE *)"abc", 3, digest, &m));
    numbers("lengths of a digest", n, m);
    SAY(f->C_Digest(s, (CK_BYTE *)"abc", 3, digest, &n));
    printf("%02x%02x%02x%02x\n", digest[0], digest[1], digest[30], digest[31]);
    SAY(f->C_Digest(s, (CK_BYTE *)"abc", 3, digest, &n));
    SAY(f->C_DigestInit(s, &unknown));
    SAY(f->C_DigestInit(s, NULL));
    SAY(f->C_DigestInit(s, &sha));
    SAY(f->C_DigestUpdate(s, big, 1000));
    SAY(f->C_DigestUpdate(s, big, sizeof big));
    SAY(f->C_DigestFinal(s, digest, &n));
    printf("%02x%02x%02x%02x\n", digest[0], digest[1], digest[30], digest[31]);
    n = sizeof signature;
    SAY(f->C_SignInit(s, &ecdsa, ec));
    SAY(f->C_Sign(s, digest, 32, NULL, &n));
    SAY(f->C_Sign(s, digest, 32, signature, &n));
    numbers("signature", n, 0);
    SAY(f->C_VerifyInit(s, &ecdsa, ec_public));
    SAY(f->C_Verify(s, digest, 32, signature, n));
    signature[3] ^= 1;
    SAY(f->C_VerifyInit(s, &ecdsa, ec_public));
    SAY(f->C_Verify(s, digest, 32, signature, n));
    SAY(f->C_SignInit(s, &ecdsa, ec + 12345));
    SAY(f->C_SignInit(s, &ecdsa, 0));
    SAY(f->C_Sign(s, digest, 32, signature, &n));
    n = sizeof signature;
    SAY(f->C_SignInit(s, &rsa_pss, rsa));
    SAY(f->C_SignUpdate(s, big, 100000));
    SAY(f->C_SignFinal(s, signature, &n));
    SAY(f->C_VerifyInit(s, &rsa_pss, rsa_public));
    SAY(f->C_VerifyUpdate(s, big, 100000));
    SAY(f->C_VerifyFinal(s, signature, n));
    SAY(f->C_SignInit(s, &pkcs, rsa));
    n = 10;
    SAY(f->C_Sign(s, big, 60000, signature, &n));
    numbers("signature", n, 0);
    n = sizeof signature;
    SAY(f->C_Sign(s, big, 60000, signature, &n));
}

static void encrypt(void)
{
    CK_BYTE iv[16] = {1}, aad[5] = {2}, plain[64] = "attack at dawn", made[512], back[512];
    CK_GCM_PARAMS gcm_params = {iv, 12, 96, aad, 5, 128};
    CK_RSA_PKCS_OAEP_PARAMS oaep_params = {CKM_SHA_1, CKG_MGF1_SHA1, 1, NULL, 0};
    CK_MECHANISM cbc = {CKM_AES_CBC_PAD, iv, 16}, gcm = {CKM_AES_GCM, &gcm_params, sizeof gcm_params};
    CK_MECHANISM short_iv = {CKM_AES_CBC, iv, 5}, short_gcm = {CKM_AES_GCM, &gcm_params, 16};
    CK_MECHANISM oaep = {CKM_RSA_PKCS_OAEP, &oaep_params, sizeof oaep_params};
    CK_ULONG n = sizeof made, m = sizeof back, all, some;
    SAY(f->C_EncryptInit(s, &cbc, aes));
    SAY(f->C_Encrypt(s, plain, 30, NULL, &n));
    SAY(f->C_Encrypt(s, plain, 30, made, &n));
    SAY(f->C_DecryptInit(s, &cbc, aes));
    SAY(f->C_Decrypt(s, made, n, back, &m));
    printf("%lu %lu %.14s\n", n, m, back);
    SAY(f->C_EncryptInit(s, &cbc, aes));
    all = sizeof made;
    SAY(f->C_EncryptUpdate(s, plain, 20, made, &all));
    some = sizeof made - all;
    SAY(f->C_EncryptFinal(s, made + all, &some));
    numbers("in parts", all, some);
    printf("a short IV: %d\n", f->C_EncryptInit(s, &short_iv, aes) != CKR_OK);
    printf("a short struct: %d\n", f->C_EncryptInit(s, &short_gcm, aes) != CKR_OK);
    n = sizeof made, m = sizeof back;
    SAY(f->C_EncryptInit(s, &gcm, aes));
    SAY(f->C_Encrypt(s, plain, 30, made, &n));
    SAY(f->C_DecryptInit(s, &gcm, aes));
    SAY(f->C_Decrypt(s, made, n, back, &m));
    printf("%lu %lu %.14s\n", n, m, back);
    made[0] ^= 1, m = sizeof back;
    SAY(f->C_DecryptInit(s, &gcm, aes));
    printf("a wrong tag: %d\n", f->C_Decrypt(s, made, n, back, &m) != CKR_OK);
    n = sizeof made, m = sizeof back;
    SAY(f->C_EncryptInit(s, &oaep, rsa_public));
    SAY(f->C_Encrypt(s, plain, 30, made, &n));
    SAY(f->C_DecryptInit(s, &oaep, rsa));
    SAY(f->C_Decrypt(s, made, n, back, &m));
    printf("%lu %lu %.14s\n", n, m, back);
}

static void derive_and_wrap(void)
{
    CK_BYTE point[128], value[64], wrapped[256];
    CK_ULONG class = CKO_SECRET_KEY, type = CKK_GENERIC_SECRET, aes_type = CKK_AES, length = 32, n;
    CK_ATTRIBUTE get[] = {{CKA_EC_POINT, point, sizeof point}};
    CK_ATTRIBUTE secret[] = {{CKA_CLASS, &class, sizeof class}, {CKA_KEY_TYPE, &type, sizeof type},
                             {CKA_SENSITIVE, &no, 1}, {CKA_EXTRACTABLE, &yes, 1},
                             {CKA_VALUE_LEN, &length, sizeof length}};
    CK_ATTRIBUTE read[] = {{CKA_VALUE, value, sizeof value}};
    CK_ATTRIBUTE into[] = {{CKA_CLASS, &class, sizeof class}, {CKA_KEY_TYPE, &aes_type, sizeof class},
                           {CKA_ENCRYPT, &yes, 1}};
    CK_ECDH1_DERIVE_PARAMS params = {CKD_NULL, 0, NULL, 0, NULL};
    CK_MECHANISM ecdh = {CKM_ECDH1_DERIVE, &params, sizeof params};
    CK_MECHANISM wrap = {CKM_AES_KEY_WRAP, NULL, 0};
    CK_OBJECT_HANDLE derived, unwrapped;
    SAY(f->C_GetAttributeValue(s, ec_public, get, 1));
    params.pPublicData = point;
    params.ulPublicDataLen = get[0].ulValueLen;
    SAY(f->C_DeriveKey(s, &ecdh, ec, secret, 5, &derived));
    SAY(f->C_GetAttributeValue(s, derived, read, 1));
    numbers("shared secret", read[0].ulValueLen, 0);
    SAY(f->C_WrapKey(s, &wrap, aes, derived, NULL, &n));
    SAY(f->C_WrapKey(s, &wrap, aes, derived, wrapped, &n));
    numbers("wrapped", n, 0);
    SAY(f->C_UnwrapKey(s, &wrap, aes, wrapped, n, into, 3, &unwrapped));
    SAY(f->C_UnwrapKey(s, &wrap, 0, wrapped, n, into, 3, &unwrapped));
    n = sizeof wrapped;
    SAY(f->C_GetOperationState(s, wrapped, &n));
    SAY(f->C_SetOperationState(s, wrapped, 8, 0, 0));
}

static void *wait_for_slot(void *to)
{
    CK_SLOT_ID event;
    *(CK_RV *)to = f->C_WaitForSlotEvent(0, &event, NULL);
    return NULL;
}

static void ends(void)
{
    CK_SESSION_HANDLE other;
    CK_SESSION_INFO info;
    CK_SLOT_ID event;
    CK_RV waited = 1;
    pthread_t thread;
    pid_t child;
    int how = 0;
    fflush(stdout);
    if ((child = fork()) == 0) {
        /* The module itself would go on with its parent's state. */
        int fine = !remoted() || (f->C_GetSessionInfo(s, &info) == CKR_CRYPTOKI_NOT_INITIALIZED &&
                   f->C_Initialize(NULL) == CKR_OK && f->C_GetSessionInfo(s, &info) == CKR_SESSION_HANDLE_INVALID &&
                   f->C_Finalize(NULL) == CKR_OK);
        _exit(fine ? 0 : 1);
    }
    waitpid(child, &how, 0);
    numbers("the child", how, 0);
    SAY(f->C_WaitForSlotEvent(CKF_DONT_BLOCK, &event, NULL));
    SAY(f->C_OpenSession(slot, CKF_SERIAL_SESSION, NULL, NULL, &other));
    SAY(f->C_Logout(s));
    SAY(f->C_Logout(s));
    SAY(f->C_GetAttributeValue(s, ec, NULL, 0));
    SAY(f->C_CloseAllSessions(slot + 12345));
    SAY(f->C_CloseAllSessions(slot));
    SAY(f->C_GetSessionInfo(other, &info));
    SAY(f->C_GetSessionInfo(s, &info));
    SAY(f->C_OpenSession(slot, CKF_SERIAL_SESSION, NULL, NULL, &other));
    if (remoted()) {
        pthread_create(&thread, NULL, wait_for_slot, &waited);
        usleep(300000);
    }
    SAY(f->C_Finalize(NULL));
    if (remoted()) {
        pthread_join(thread, NULL);
        check("the thread that waited", waited == CKR_CRYPTOKI_NOT_INITIALIZED);
    }
    SAY(f->C_Finalize(NULL));
    SAY(f->C_GetSessionInfo(other, &info));
    SAY(f->C_Initialize(NULL));
    SAY(f->C_GetSessionInfo(other, &info));
    SAY(f->C_OpenSession(slot, CKF_SERIAL_SESSION, NULL, NULL, &other));
    SAY(f->C_Finalize(NULL));
}

/* Makes a token in the first slot. */
static void init(void)
{
    CK_BYTE so[] = "87654321", pin[] = "8372", label[32];
    CK_ULONG n = 1;
    CK_SLOT_ID first;
    memset(label, ' ', sizeof label);
    memcpy(label, "vfun", 4);
    SAY(f->C_Initialize(NULL));
    SAY(f->C_GetSlotList(0, &first, &n));
    SAY(f->C_InitToken(first + 12345, so, 8, label));
    SAY(f->C_InitToken(first, so, 8, label));
    SAY(f->C_OpenSession(first, CKF_SERIAL_SESSION | CKF_RW_SESSION, NULL, NULL, &s));
    SAY(f->C_InitPIN(s, pin, 4));
    SAY(f->C_Login(s, CKU_SO, so, 8));
    SAY(f->C_InitPIN(s, pin, 4));
    SAY(f->C_Finalize(NULL));
}

/* Asks until the service is gone, and begins anew. */
static void dies(void)
{
    CK_SESSION_INFO info;
    CK_RV returned;
    puts("ready");
    fflush(stdout);
    while ((returned = f->C_GetSessionInfo(s, &info)) == CKR_OK)
        ;
    printf("the service is gone: 0x%lx\n", returned);
    SAY(f->C_GetSessionInfo(s, &info));
    SAY(f->C_OpenSession(slot, CKF_SERIAL_SESSION, NULL, NULL, &s));
    SAY(f->C_Initialize(NULL));
    SAY(f->C_Finalize(NULL));
    SAY(f->C_Initialize(NULL));
    SAY(f->C_GetSessionInfo(s, &info));
    SAY(f->C_OpenSession(slot, CKF_SERIAL_SESSION, NULL, NULL, &s));
    SAY(f->C_GetSessionInfo(s, &info));
    SAY(f->C_Finalize(NULL));
}

/* Sleeps until a slot has an event, and until another thread ends the API. */
static void waits(void)
{
    CK_SLOT_ID event = 0;
    CK_RV waited = 1;
    pthread_t thread;
    SAY(f->C_Initialize(NULL));
    SAY(f->C_WaitForSlotEvent(CKF_DONT_BLOCK, &event, NULL));
    puts("ready");
    fflush(stdout);
    SAY(f->C_WaitForSlotEvent(0, &event, NULL));
    numbers("slot", event, 0);
    SAY(f->C_WaitForSlotEvent(CKF_DONT_BLOCK, &event, NULL));
    pthread_create(&thread, NULL, wait_for_slot, &waited);
    usleep(100000);
    SAY(f->C_Finalize(NULL));
    pthread_join(thread, NULL);
    printf("the thread that waited: 0x%lx\n", (unsigned long)waited);
}

int main(int argc, char **argv)
{
    void *module = argc > 1 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL;
    CK_C_GetFunctionList get = module ? (CK_C_GetFunctionList)dlsym(module, "C_GetFunctionList") : NULL;
    if (!get) {
        fprintf(stderr, "no module: %s\n", dlerror());
        return 2;
    }
    SAY(get(NULL));
    SAY(get(&f));
    numbers("version", f->version.major, f->version.minor);
    if (argc > 2 && !strcmp(argv[2], "init")) {
        init();
        return 0;
    }
    if (argc > 2 && !strcmp(argv[2], "waits")) {
        waits();
        return 0;
    }
    beginnings();
    if (!find_slot()) {
        puts("no token");
        return 3;
    }
    sessions();
    if (argc > 2 && !strcmp(argv[2], "dies")) {
        dies();
        return 0;
    }
    if (argc > 2) {
        puts("ready");
        fflush(stdout);
        return getchar() == EOF ? 0 : 1;
    }
    generate();
    attributes();
    find();
    digest_and_sign();
    encrypt();
    derive_and_wrap();
    ends();
    return 0;
}
